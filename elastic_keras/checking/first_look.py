"""What is wrong with a check that can be told before TensorFlow is there."""

from elastic_keras import preflight
from elastic_keras.config import ConfigError, JobConfig

DATA = ("training_data", "validation_data", "prediction_data")


def find_mistakes(config: JobConfig) -> None:
    """Checks the module's place, its parameters and its data.

    Args:
        config: The job that the module is for.

    Raises:
        ConfigError: There is no such module or file, or no training data
            beside other ones.
    """
    preflight.check_inputs(config)
    for name in DATA:
        given = getattr(config.data, name)
        if given and not config.data.training_data:
            raise ConfigError(
                f"--{name} needs --training_data. Received: "
                f"{name}={given!r}, training_data=''"
            )
