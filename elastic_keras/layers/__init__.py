"""Keras layers whose rows live on the PS shards."""

from elastic_keras.layers.embedding import Embedding

__all__ = ["Embedding"]
