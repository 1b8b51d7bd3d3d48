"""A model's outputs on their way from the workers to one file.

Each task's outputs are a part of their own; at the end the parts become one
file, in the order of the input. Nothing here imports TensorFlow.
"""
