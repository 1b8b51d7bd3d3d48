"""A look into the files of a snapshot, without processes or TensorFlow."""
