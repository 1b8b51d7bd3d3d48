"""What is wrong with a job that can be told before anything is started.

Nothing here imports TensorFlow or runs the user's module: what takes that is
found out by the job's own processes.
"""

import os

from elastic_keras.config import ConfigError, JobConfig
from elastic_keras.data import sources
from elastic_keras.data.errors import DataError
from elastic_keras.data.file_reader import FileReader
from elastic_keras.master.ranges import check_options
from elastic_keras.zoo.location import Location, locate
from elastic_keras.zoo.params import parse_params


def check(config: JobConfig) -> None:
    """Checks a training job's module, parameters and data.

    Args:
        config: The job.

    Raises:
        ConfigError: There is no such module or file, a file that cannot be
            read, or options that contradict one another.
    """
    location = locate(config.model)
    parse_params(config.model.model_params)
    parse_params(config.data.data_reader_params)
    check_options(config)
    if _reads_itself(location):
        # What the data flags mean is the module's business.
        return
    for name in ("training_data", "validation_data"):
        data = getattr(config.data, name)
        if data:
            _check_files(config, name, data)


def _reads_itself(location: Location) -> bool:
    try:
        return location.defines("custom_data_reader")
    except OSError as error:
        raise ConfigError(
            f"Cannot read the module: {error.strerror}. "
            f"Received: {location.path!r}"
        ) from error


def _check_files(config: JobConfig, name: str, data: str) -> None:
    paths = sources.expand(data, name)
    for path in paths:
        _check_readable(path, name)
    FileReader(paths, config.data.data_format, config.data.csv_header)
    if not any(os.path.getsize(path) for path in paths):
        raise DataError(f"The data hold no records. Received: {name}={data!r}")


def _check_readable(path: str, name: str) -> None:
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise DataError(
            f"Cannot read data: {error.strerror}. Received: {name}={path!r}"
        ) from error
