"""A model-zoo module, tried on one batch without a job."""
