"""How the data of a job is cut into tasks."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from elastic_keras.config import (
    ConfigError,
    DataOptions,
    JobConfig,
    TrainingOptions,
)

if TYPE_CHECKING:
    from elastic_keras.data.reader import DataReader, RecordRange

# Small tasks spread data evenly over workers; large ones cost less.
_LEAST_BATCHES = 8
_MOST_BATCHES = 256
_TASKS_PER_WORKER = 8
_UNIT_RECORDS = 256


@dataclasses.dataclass(frozen=True)
class JobRanges:
    """The ranges of a job's data.

    Args:
        training: Its training data; empty where it trains nothing.
        validation: Its validation data; may be empty.
        prediction: Its prediction data; may be empty.
    """

    training: list["RecordRange"]
    validation: list["RecordRange"]
    prediction: list["RecordRange"] = dataclasses.field(default_factory=list)

    @property
    def first(self) -> "RecordRange":
        """The first range of the job's main data."""
        return (self.training or self.prediction or self.validation)[0]


def scan(config: JobConfig) -> JobRanges:
    """Finds the records of a job's data; may take long for large files.

    Args:
        config: The job.

    Raises:
        ConfigError: No such files, no records, or options that need data
            that is not there.
        UserCodeError: A custom data reader raised.
    """
    from elastic_keras.data.reader import open_reader
    from elastic_keras.zoo import module, params
    from elastic_keras.zoo.errors import UserCodeError
    from elastic_keras.zoo.location import locate

    check_options(config)
    custom = None
    custom_params = None
    if locate(config.model).defines("custom_data_reader"):
        # Only now: the module imports TensorFlow.
        custom = module.load(
            config.model, training=config.command == "train"
        ).custom_data_reader
        custom_params = params.parse_params(config.data.data_reader_params)

    def ranges_of(data: str) -> list["RecordRange"]:
        if not data:
            return []
        try:
            reader = open_reader(
                data, config.data, custom=custom, custom_params=custom_params
            )
            return plan(
                reader,
                config.data,
                num_workers=config.cluster.num_workers,
                mergeable=custom is None,
            )
        except ConfigError:
            raise
        except Exception as error:
            if custom is None:
                raise
            raise UserCodeError("custom_data_reader", error) from error

    return JobRanges(
        ranges_of(config.data.training_data),
        ranges_of(config.data.validation_data),
        ranges_of(config.data.prediction_data),
    )


def check_options(config: JobConfig) -> None:
    """Checks that options have what they need: data, or one another.

    Args:
        config: The job.

    Raises:
        ConfigError: One of them could do nothing.
    """
    if config.cluster.port and config.wire.transport != "tcp":
        raise ConfigError(
            "--port needs --transport=tcp. Received: "
            f"port={config.cluster.port}, "
            f"transport={config.wire.transport!r}"
        )
    if config.command == "train":
        _check_training(config)
    elif not (config.data.prediction_data or config.data.validation_data):
        raise ConfigError(
            "No records to train on: name files with --training_data. "
            "Received: training_data=''"
        )


def _check_training(config: JobConfig) -> None:
    training = config.training
    if config.data.prediction_data:
        raise ConfigError(
            "Training takes no data to predict on. Received: "
            f"prediction_data={config.data.prediction_data!r}"
        )
    _check_early_stopping(training)
    if config.data.validation_data:
        return
    for name in ("evaluation_steps", "early_stopping_patience"):
        if value := getattr(training, name):
            raise ConfigError(
                f"--{name} needs --validation_data. Received: "
                f"{name}={value}, validation_data=''"
            )


def _check_early_stopping(training: TrainingOptions) -> None:
    metric = training.early_stopping_metric
    patience = training.early_stopping_patience
    if bool(metric) == bool(patience):
        return
    given, other = "early_stopping_metric", "early_stopping_patience"
    if patience:
        given, other = other, given
    raise ConfigError(
        f"--{given} needs --{other}. Received: "
        f"early_stopping_metric={metric!r}, "
        f"early_stopping_patience={patience}"
    )


def plan(
    reader: "DataReader",
    options: DataOptions,
    *,
    num_workers: int,
    mergeable: bool = True,
) -> list["RecordRange"]:
    """Cuts data into the ranges of its tasks.

    Args:
        reader: Reads the data.
        options: `--records_per_task` (0: picked here from the amount of
            data, a multiple of the batch size) and the batch size.
        num_workers: Workers that share the data.
        mergeable: Whether neighbouring ranges of a source may be joined;
            only a reader of files promises that.

    Raises:
        ConfigError: There are no records.
    """
    if options.records_per_task:
        return reader.ranges(options.records_per_task)
    batch = options.minibatch_size
    if not mergeable:
        return reader.ranges(batch * 8 * _LEAST_BATCHES)
    unit = -(-_UNIT_RECORDS // batch)
    ranges = reader.ranges(unit * batch)
    batches = -(-sum(r.count for r in ranges) // batch)
    wanted = batches // (num_workers * _TASKS_PER_WORKER)
    # Some tasks for each worker matter more than their length.
    least = min(_LEAST_BATCHES, batches // (num_workers * 2))
    wanted = min(max(wanted, least), _MOST_BATCHES)
    if wanted < unit:
        # So few records that reading them twice costs nothing.
        return reader.ranges(max(1, wanted) * batch)
    return merged(ranges, max(1, wanted // unit))


def merged(ranges: Sequence["RecordRange"], most: int) -> list["RecordRange"]:
    """Joins neighbouring ranges of the same source.

    Args:
        ranges: The ranges, in order.
        most: Most ranges that become one.
    """
    result: list[RecordRange] = []
    joined = 0
    for current in ranges:
        last = result[-1] if result else None
        if last is not None and joined < most and _adjacent(last, current):
            result[-1] = dataclasses.replace(
                last,
                count=last.count + current.count,
                byte_end=current.byte_end,
            )
            joined += 1
        else:
            result.append(current)
            joined = 1
    return result


def _adjacent(first: "RecordRange", second: "RecordRange") -> bool:
    return (
        first.source == second.source
        and first.start + first.count == second.start
        and first.byte_end == second.byte_start
        and first.byte_end >= 0
    )
