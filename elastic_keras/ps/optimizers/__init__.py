"""The optimizers as shards run them: one module an algorithm."""
