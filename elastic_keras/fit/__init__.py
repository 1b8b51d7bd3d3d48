"""Training through shards for people with a script and no module."""
