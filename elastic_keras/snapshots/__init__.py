"""Snapshots: a model's parameters in a folder, and how they are read.

Nothing here imports TensorFlow: shards write them, and whoever wants a
trained model's numbers reads them without starting a process.
"""
