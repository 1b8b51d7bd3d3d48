"""What is wrong with a job that can be told before anything is started.

Nothing here imports TensorFlow or runs the user's module: what takes that is
found out by the job's own processes.
"""

import os

from elastic_keras.config import ConfigError, JobConfig
from elastic_keras.data import sources
from elastic_keras.data.errors import DataError
from elastic_keras.data.file_reader import FileReader
from elastic_keras.exports.destination import check_output, read_formats
from elastic_keras.master.ranges import check_options
from elastic_keras.monitoring.metrics_server import MetricsServer
from elastic_keras.monitoring.profile_option import profiled_steps
from elastic_keras.monitoring.projector_options import names_files
from elastic_keras.wire.tls import read_tls
from elastic_keras.zoo.location import Location, locate
from elastic_keras.zoo.names import near_misses
from elastic_keras.zoo.params import parse_params


def check(config: JobConfig) -> None:
    """Checks a training job's module, parameters and data.

    Args:
        config: The job.

    Raises:
        ConfigError: There is no such module or file, a file that cannot be
            read, options that make no sense or contradict one another, or a
            port that is taken.
    """
    locate(config.model)
    check_options(config)
    if config.command == "train" and config.output.output:
        check_output(config.output.output)
        read_formats(config.output.formats)
    check_inputs(config)
    _check_metrics_port(config.monitoring.metrics_port)
    profiled_steps(config.monitoring.profile_steps)
    names_files(config.monitoring.projector_names)


def check_inputs(config: JobConfig) -> None:
    """Checks a module's place, its parameters and the data that are given.

    Args:
        config: The job.

    Raises:
        ConfigError: There is no such module or file, or a file that cannot
            be read.
    """
    location = locate(config.model)
    read_tls(config.wire)
    parse_params(config.model.model_params)
    parse_params(config.data.data_reader_params)
    if _reads_itself(location):
        # What the data flags mean is the module's business.
        return
    for name in ("training_data", "validation_data", "prediction_data"):
        data = getattr(config.data, name)
        if data:
            _check_files(config, name, data)


def warnings(config: JobConfig) -> list[str]:
    """Returns what a job that passed `check` hardly means so.

    Args:
        config: The job.

    Returns:
        A text for each.
    """
    location = locate(config.model)
    found = [
        f"The module defines {written!r}, which nothing calls. Is {meant!r} "
        f"meant? Received: {location.path}"
        for written, meant in near_misses(location.own_names()).items()
    ]
    if config.model.deterministic and not _repeatable(config):
        found.append(
            "--deterministic gives the same bits on every run with one "
            "worker, --staleness_policy=wait and --max_staleness=0 only; it "
            "turns on TensorFlow's part. Received: "
            f"num_workers={config.cluster.num_workers}, "
            f"staleness_policy={config.staleness.staleness_policy!r}, "
            f"max_staleness={config.staleness.max_staleness}"
        )
    return found


def _check_metrics_port(port: int) -> None:
    if port:
        MetricsServer(port, "", str).close()


def _repeatable(config: JobConfig) -> bool:
    staleness = config.staleness
    return (
        config.cluster.num_workers == 1
        and staleness.staleness_policy == "wait"
        and staleness.max_staleness == 0
    )


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
