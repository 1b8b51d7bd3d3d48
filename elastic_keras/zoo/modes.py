"""What a dataset is made for."""

import enum


class Mode(str, enum.Enum):
    """The second argument of `dataset_fn`; equal to its value, a string."""

    TRAINING = "training"
    EVALUATION = "evaluation"
    PREDICTION = "prediction"
