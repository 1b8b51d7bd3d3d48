"""What a dataset is made for."""

import enum


class Mode(str, enum.Enum):
    """The second argument of `dataset_fn`; equal to its value, a string.

    Example:
        >>> import elastic_keras as ek
        >>> ek.Mode.PREDICTION == "prediction"
        True
    """

    TRAINING = "training"
    EVALUATION = "evaluation"
    PREDICTION = "prediction"
