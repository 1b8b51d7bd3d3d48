"""Every option of a job: once, with its default, unit and check.

The options stand in small groups; a part of the system takes the group it
needs. Command-line flags are made from the same fields (`cli.py`).
"""

import dataclasses
import difflib
import json
from typing import Any

# What an int64 of the wire holds; NaN and infinity are beyond it, too.
_LARGEST = (1 << 63) - 1


# What only a job that trains can make something of.
_TRAINING = ("train",)
# Commands that run a module on data.
_ON_DATA = ("train", "evaluate", "predict", "zoo check")
_ALL = (*_ON_DATA, "export")


EXPORT_FORMATS = ("keras", "saved_model", "embeddings")


class ConfigError(ValueError):
    """Wrong use: an option, a path or a module that cannot work."""


def option(
    default: Any,
    text: str,
    *,
    unit: str = "",
    minimum: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] | None = None,
    commands: tuple[str, ...] = (),
) -> Any:
    """A dataclass field with what a flag needs.

    Args:
        default: Default value; its type is the option's type.
        text: One line for `--help`.
        unit: Unit of the value, for `--help`.
        minimum: Least value allowed.
        maximum: Largest value allowed.
        choices: The values allowed.
        commands: The commands that take it; none stands for all that run a
            module on data.
    """
    return dataclasses.field(
        default=default,
        metadata={
            "help": text,
            "unit": unit,
            "minimum": minimum,
            "maximum": maximum,
            "choices": choices,
            "commands": commands,
        },
    )


class _Checked:
    """Checks each field against its type, minimum and choices."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            _check(field, getattr(self, field.name))


def _check(field: dataclasses.Field[Any], value: Any) -> None:
    kind = type(field.default)
    # By the exact type: a bool is an int to isinstance.
    if type(value) is not kind and not (kind is float and type(value) is int):
        raise ConfigError(
            f"--{field.name} takes a value of type {kind.__name__}. "
            f"Received: {field.name}={value!r}"
        )
    choices = field.metadata["choices"]
    if choices is not None and value not in choices:
        raise ConfigError(
            f"--{field.name} takes one of {', '.join(choices)}. "
            f"Received: {field.name}={value!r}"
        )
    if kind in (int, float):
        _check_range(field, value)  # type: ignore[arg-type]


def _check_range(field: dataclasses.Field[Any], value: float) -> None:
    minimum = field.metadata["minimum"]
    maximum = field.metadata["maximum"]
    if not abs(value) <= _LARGEST:
        raise ConfigError(
            f"--{field.name} takes a finite number. "
            f"Received: {field.name}={value!r}"
        )
    if minimum is not None and value < minimum:
        raise ConfigError(
            f"--{field.name} takes a value of at least {minimum}. "
            f"Received: {field.name}={value!r}"
        )
    if maximum is not None and value > maximum:
        raise ConfigError(
            f"--{field.name} takes a value of at most {maximum}. "
            f"Received: {field.name}={value!r}"
        )


@dataclasses.dataclass(frozen=True)
class ModelOptions(_Checked):
    """Which model, and how it is made."""

    model_zoo: str = option("", "Folder of model-zoo modules.", commands=_ALL)
    model_def: str = option(
        "",
        "Module in the zoo, e.g. criteo.deepfm, with or without the name of "
        "the model's function or class at its end; or the path of a .py file.",
        commands=_ALL,
    )
    model_params: str = option(
        "",
        "Arguments of custom_model, e.g. 'dim=8; hidden=[64,32]'.",
        commands=_ALL,
    )
    seed: int = option(
        0,
        "Seed of initial values and of every shuffle.",
        minimum=0,
        commands=_TRAINING,
    )
    embedding_threshold_bytes: int = option(
        2 << 20,
        "Keras Embedding layers at least this large become PS tables.",
        unit="bytes",
        minimum=0,
        commands=_TRAINING,
    )
    deterministic: bool = option(False, "Turn TensorFlow's op determinism on.")


@dataclasses.dataclass(frozen=True)
class DataOptions(_Checked):
    """Where records come from and how they are cut into tasks."""

    training_data: str = option(
        "",
        "Files or globs to train on, separated by commas.",
        commands=_TRAINING,
    )
    validation_data: str = option(
        "",
        "Files or globs to evaluate on, separated by commas.",
        commands=("train", "evaluate"),
    )
    prediction_data: str = option(
        "",
        "Files or globs to predict on, separated by commas.",
        commands=("predict", "zoo check"),
    )
    data_format: str = option(
        "auto",
        "Format of the files; auto goes by their ending.",
        choices=("auto", "csv", "tsv", "text", "tfrecord"),
    )
    csv_header: bool = option(
        False, "The first record of each CSV or TSV file names the columns."
    )
    data_reader_params: str = option(
        "", "Arguments of custom_data_reader, e.g. 'table=\"a\"'."
    )
    minibatch_size: int = option(
        64,
        "Examples in a batch, if dataset_fn does not batch.",
        minimum=1,
        # The kernel that maps and batches takes its time, and memory, for
        # examples that are missing, too: 0.6 s for a million.
        maximum=1 << 20,
    )
    records_per_task: int = option(
        0,
        "Records in a task; 0 picks a multiple of the batch size.",
        unit="records",
        minimum=0,
    )
    shuffle: bool = option(
        True,
        "Shuffle the tasks of an epoch and the records in a task.",
        commands=_TRAINING,
    )
    bad_records: str = option(
        "fail",
        "What to do with a broken record.",
        choices=("fail", "skip"),
    )


@dataclasses.dataclass(frozen=True)
class TrainingOptions(_Checked):
    """How long to train, and when to evaluate."""

    num_epochs: int = option(
        1,
        "Passes over the training data.",
        minimum=1,
        commands=_TRAINING,
    )
    max_steps: int = option(
        0,
        "Stop after this many steps; 0 means no limit.",
        minimum=0,
        commands=_TRAINING,
    )
    evaluation_steps: int = option(
        0,
        "Steps between evaluations; 0 evaluates after each epoch.",
        unit="steps",
        minimum=0,
        commands=_TRAINING,
    )
    early_stopping_metric: str = option(
        "",
        "Evaluation metric that must improve, e.g. auc or loss.",
        commands=_TRAINING,
    )
    early_stopping_patience: int = option(
        0,
        "Evaluations without improvement before the job stops; 0 is off.",
        unit="evaluations",
        minimum=0,
        commands=_TRAINING,
    )
    max_nonfinite_pushes: int = option(
        0,
        "Batches with a NaN or Inf gradient that the job puts up with.",
        unit="batches",
        minimum=0,
        commands=_TRAINING,
    )


@dataclasses.dataclass(frozen=True)
class StalenessOptions(_Checked):
    """The bound on staleness."""

    max_staleness: int = option(
        0,
        "The bound S of the staleness policy.",
        minimum=0,
        commands=_TRAINING,
    )
    staleness_policy: str = option(
        "wait",
        "How the bound is kept.",
        choices=("wait", "recompute", "dampen", "unbounded"),
        commands=_TRAINING,
    )
    grads_to_wait: int = option(
        1,
        "Pushes that a shard averages into one update.",
        minimum=1,
        commands=_TRAINING,
    )


@dataclasses.dataclass(frozen=True)
class WireOptions(_Checked):
    """How bytes travel between the processes."""

    transport: str = option(
        "unix",
        "Between processes of one host: Unix sockets or TCP.",
        choices=("unix", "tcp"),
    )
    shared_memory: bool = option(
        True,
        "Between processes of one host: hand arrays over in shared memory "
        "where that is possible.",
    )
    wire_dtype: str = option(
        "float32",
        "Element type of rows and gradients on the wire.",
        choices=("float32", "bfloat16", "float16"),
    )
    wire_compression: str = option(
        "none",
        "Compression of rows and gradients on the wire.",
        choices=("none", "lz4", "snappy", "zstd"),
    )
    rpc_timeout_secs: float = option(
        60.0, "Deadline of one call.", unit="seconds", minimum=0.1
    )
    max_message_mb: int = option(
        1024,
        "Largest message accepted.",
        unit="MiB",
        minimum=1,
        # gRPC and protobuf count a message's bytes in 31 bits.
        maximum=2047,
    )
    tls_cert: str = option(
        "",
        "Encrypt connections over TCP: file with the certificate, PEM, that "
        "all of the job's processes show. It names the addresses that they "
        "listen at.",
    )
    tls_key: str = option("", "File with the private key of --tls_cert, PEM.")
    tls_ca: str = option(
        "",
        "File with the certificates that --tls_cert must come from, PEM; "
        "empty for itself.",
    )
    tls_mutual: bool = option(
        False, "Servers ask callers for their certificate too."
    )
    tls_name: str = option(
        "", "Name that servers' certificates hold in place of an address."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        given = [
            name
            for name in ("tls_cert", "tls_key", "tls_ca", "tls_name")
            if getattr(self, name)
        ] + ["tls_mutual"] * self.tls_mutual
        if not given:
            return
        if not (self.tls_cert and self.tls_key):
            raise ConfigError(
                "TLS needs --tls_cert and --tls_key. Received: "
                f"{', '.join(given)}"
            )
        if self.transport != "tcp":
            raise ConfigError(
                "TLS is for TCP: add --transport=tcp. Only this user can open "
                f"a job's Unix sockets. Received: transport={self.transport!r}"
            )


@dataclasses.dataclass(frozen=True)
class ClusterOptions(_Checked):
    """Which processes, and where they leave their traces."""

    launcher: str = option("local", "Who starts processes.", choices=("local",))
    job_dir: str = option(
        "",
        "Job directory; empty makes a new one under runs/.",
        commands=_ALL,
    )
    num_workers: int = option(1, "Worker processes.", minimum=1)
    num_ps: int = option(1, "PS shard processes.", minimum=1)
    port: int = option(
        0,
        "First TCP port (master, then shards) with --transport=tcp; "
        "0 takes free ones.",
        minimum=0,
        maximum=65535,
    )
    heartbeat_secs: float = option(
        1.0,
        "Pause between heartbeats; a worker that misses 10 of them, for 2 "
        "seconds at least, is lost.",
        unit="seconds",
        minimum=0.05,
    )
    step_timeout_secs: float = option(
        600.0,
        "A worker that is at one step, one batch of records or building the "
        "model for longer is started again, and its log tells of a callback "
        "that takes longer; 0 waits for ever.",
        unit="seconds",
        minimum=0,
    )


@dataclasses.dataclass(frozen=True)
class SnapshotOptions(_Checked):
    """What outlives a process, and where trained parameters come from."""

    journal: bool = option(
        True,
        "Shards write down each push before they acknowledge it, so that one "
        "that dies comes back with all of them.",
        commands=_TRAINING,
    )
    journal_max_mb: int = option(
        8192,
        "Journal of a shard that a snapshot is taken at, to begin it anew; 0 "
        "lets it grow to the end of the job.",
        unit="MiB",
        minimum=0,
        commands=_TRAINING,
    )
    snapshot_steps: int = option(
        0,
        "Steps between snapshots; 0 takes none by steps. The end of training "
        "always leaves one.",
        unit="steps",
        minimum=0,
        commands=_TRAINING,
    )
    snapshot_secs: float = option(
        0.0,
        "Pause between snapshots; 0 takes none by time.",
        unit="seconds",
        minimum=0,
        commands=_TRAINING,
    )
    keep_snapshots: int = option(
        3,
        "Snapshots that stay, the newest ones; 0 keeps all.",
        unit="snapshots",
        minimum=0,
        commands=_TRAINING,
    )
    restore_from: str = option(
        "",
        "A snapshot, an export, or another job's directory, to read in place "
        "of the newest snapshot of --job_dir. A training goes on where a "
        "snapshot was taken.",
        commands=("train", "evaluate", "predict", "export"),
    )

    @property
    def journal_limit(self) -> int:
        """Bytes of a journal that call for a snapshot; 0 for none."""
        return self.journal * self.journal_max_mb << 20

    @property
    def holds(self) -> bool:
        """Whether snapshots are taken at moments unknown beforehand."""
        return bool(self.snapshot_secs or self.journal_limit)


@dataclasses.dataclass(frozen=True)
class OutputOptions(_Checked):
    """Where results go that are for other programs."""

    output: str = option(
        "",
        "For predictions a file: .npz, .csv or .parquet. To export, at the "
        "end of training too, a new folder.",
        commands=("train", "predict", "export"),
    )
    formats: str = option(
        ",".join(EXPORT_FORMATS),
        "What is exported, separated by commas: keras (a plain Keras model), "
        "saved_model (for TensorFlow alone), embeddings (Parquet or NumPy).",
        commands=("train", "export"),
    )
    keras_limit_mb: int = option(
        1024,
        "Most embeddings that an exported Keras model may hold; it is left "
        "out where there are more, as all of them are in memory.",
        unit="MiB",
        minimum=0,
        commands=("train", "export"),
    )
    ordered: bool = option(
        False,
        "Hand a prediction_outputs_processor the batches in the order of the "
        "input, by one worker; files always have that order.",
        commands=("predict",),
    )


@dataclasses.dataclass(frozen=True)
class MonitoringOptions(_Checked):
    """What a person sees while a job runs."""

    summary_secs: float = option(
        5.0,
        "Pause between TensorBoard points.",
        unit="seconds",
        minimum=0.1,
    )
    progress: str = option(
        "auto",
        "The progress line; auto: rich on a terminal, else plain lines.",
        choices=("auto", "rich", "plain", "none"),
    )
    metrics_port: int = option(
        0,
        "Port of this host's loopback at which the master serves metrics for "
        "Prometheus; 0 opens none.",
        minimum=0,
        maximum=65535,
        commands=_TRAINING,
    )
    histogram_secs: float = option(
        30.0,
        "Pause between histograms of weights and gradients; 0 makes none.",
        unit="seconds",
        minimum=0,
        commands=_TRAINING,
    )
    profile_steps: str = option(
        "",
        "Profile one worker from its a-th to its b-th step, e.g. 20,30.",
        commands=_TRAINING,
    )
    projector_tables: str = option(
        "",
        "Tables to show in TensorBoard's projector, separated by commas; "
        "all stands for each of them.",
        commands=_TRAINING,
    )
    projector_rows: int = option(
        10_000,
        "Rows of a table to show in the projector: an even sample.",
        unit="rows",
        minimum=1,
        commands=_TRAINING,
    )
    projector_names: str = option(
        "",
        "Names of ids for the projector, e.g. movies=titles.tsv,users=u.tsv: "
        "files with an id, a tab and a name on each line.",
        commands=_TRAINING,
    )


@dataclasses.dataclass(frozen=True)
class JobConfig:
    """One job: the groups of options and the job's identity."""

    model: ModelOptions = ModelOptions()
    data: DataOptions = DataOptions()
    training: TrainingOptions = TrainingOptions()
    staleness: StalenessOptions = StalenessOptions()
    wire: WireOptions = WireOptions()
    cluster: ClusterOptions = ClusterOptions()
    monitoring: MonitoringOptions = MonitoringOptions()
    snapshots: SnapshotOptions = SnapshotOptions()
    output: OutputOptions = OutputOptions()
    job_id: str = ""
    master_address: str = ""
    ps_addresses: tuple[str, ...] = ()
    # An export that workers load in place of `custom_model`.
    export_dir: str = ""

    def __post_init__(self) -> None:
        own = (self.job_id, self.master_address, self.export_dir)
        for value in (*own, *self.ps_addresses):
            if not isinstance(value, str):
                raise ConfigError(
                    "A job's id, addresses and export are texts. "
                    f"Received: job_id={self.job_id!r}, "
                    f"master_address={self.master_address!r}, "
                    f"ps_addresses={self.ps_addresses!r}, "
                    f"export_dir={self.export_dir!r}"
                )

    @property
    def counts_steps(self) -> bool:
        """Whether the master grants steps before they start."""
        return bool(
            self.training.evaluation_steps
            or self.training.max_steps
            or self.snapshots.snapshot_steps
            or self.snapshots.holds
        )

    @property
    def command(self) -> str:
        """What the job does: `train`, `evaluate` or `predict`."""
        if self.data.training_data:
            return "train"
        return "predict" if self.data.prediction_data else "evaluate"

    @classmethod
    def from_options(cls, **options: Any) -> "JobConfig":
        """Builds a config from options by their names.

        Args:
            **options: Values by option name, e.g. `num_workers=2`.

        Raises:
            ConfigError: An unknown name or a value out of range.
        """
        return cls().with_options(**options)

    def with_options(self, **options: Any) -> "JobConfig":
        """Returns a config with other values of some options.

        Args:
            **options: Values by option name, e.g. `num_workers=2`.

        Raises:
            ConfigError: An unknown name or a value out of range.
        """
        groups: dict[str, dict[str, Any]] = {}
        names = {field.name: group for group, field in all_options()}
        for name, value in options.items():
            if name not in names:
                near = difflib.get_close_matches(name, names, n=1)
                hint = f" Did you mean {near[0]}?" if near else ""
                raise ConfigError(
                    f"Unknown option.{hint} Received: {name}={value!r}; "
                    "see elastic_keras train --help"
                )
            groups.setdefault(names[name], {})[name] = value
        made = {
            group: dataclasses.replace(getattr(self, group), **values)
            for group, values in groups.items()
        }
        return dataclasses.replace(self, **made)

    def to_json(self) -> str:
        """Returns the text of JOB_DIR/config.json."""
        return json.dumps(dataclasses.asdict(self), indent=2)

    @classmethod
    def from_json(cls, text: str) -> "JobConfig":
        """Reads what `to_json` wrote.

        Raises:
            ConfigError: The text is not a job's config.
        """
        try:
            raw = json.loads(text)
            if not isinstance(raw, dict):
                raise TypeError(f"not a dict but {type(raw).__name__}")
            # An older version's job may lack a group.
            groups = {
                name: kind(**raw.get(name, {})) for name, kind in GROUPS.items()
            }
            return cls(
                **groups,
                job_id=raw["job_id"],
                master_address=raw["master_address"],
                ps_addresses=_addresses(raw["ps_addresses"]),
                export_dir=raw.get("export_dir", ""),
            )
        except (
            KeyError,
            TypeError,
            json.JSONDecodeError,
            RecursionError,
        ) as error:
            raise ConfigError(f"Not a job's config.json: {error!r}") from error


def _addresses(raw: Any) -> tuple[str, ...]:
    # A text is a sequence of texts as well.
    if not isinstance(raw, list):
        raise TypeError(f"ps_addresses is a list. Received: {raw!r}")
    return tuple(raw)


GROUPS: dict[str, type] = {
    "model": ModelOptions,
    "data": DataOptions,
    "training": TrainingOptions,
    "staleness": StalenessOptions,
    "wire": WireOptions,
    "cluster": ClusterOptions,
    "monitoring": MonitoringOptions,
    "snapshots": SnapshotOptions,
    "output": OutputOptions,
}


def all_options(
    command: str | None = None,
) -> list[tuple[str, dataclasses.Field[Any]]]:
    """Returns (group name, field) of every option, in order.

    Args:
        command: Leaves out the options that this command does not take.
    """
    return [
        (group, field)
        for group, kind in GROUPS.items()
        for field in dataclasses.fields(kind)
        if command is None
        or command in (field.metadata["commands"] or _ON_DATA)
    ]
