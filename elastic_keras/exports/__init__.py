"""A trained model for other programs: SavedModel, Keras file, embeddings."""
