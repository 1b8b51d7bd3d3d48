"""The journal of a shard: the ordered log of what changed its state."""
