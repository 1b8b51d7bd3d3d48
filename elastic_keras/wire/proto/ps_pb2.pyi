from elastic_keras.wire.proto import tensor_pb2 as _tensor_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PullMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TRAIN: _ClassVar[PullMode]
    READ: _ClassVar[PullMode]
TRAIN: PullMode
READ: PullMode

class ShardJoinRequest(_message.Message):
    __slots__ = ("job_id", "protocol_version", "signature", "num_shards", "shard_index", "region")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    NUM_SHARDS_FIELD_NUMBER: _ClassVar[int]
    SHARD_INDEX_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    protocol_version: int
    signature: str
    num_shards: int
    shard_index: int
    region: _tensor_pb2.Region
    def __init__(self, job_id: _Optional[str] = ..., protocol_version: _Optional[int] = ..., signature: _Optional[str] = ..., num_shards: _Optional[int] = ..., shard_index: _Optional[int] = ..., region: _Optional[_Union[_tensor_pb2.Region, _Mapping]] = ...) -> None: ...

class ShardJoinReply(_message.Message):
    __slots__ = ("dense_initialized", "version", "shares_memory")
    DENSE_INITIALIZED_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SHARES_MEMORY_FIELD_NUMBER: _ClassVar[int]
    dense_initialized: bool
    version: int
    shares_memory: bool
    def __init__(self, dense_initialized: bool = ..., version: _Optional[int] = ..., shares_memory: bool = ...) -> None: ...

class InitDenseRequest(_message.Message):
    __slots__ = ("dense", "states")
    DENSE_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    dense: _tensor_pb2.Tensor
    states: _tensor_pb2.Tensor
    def __init__(self, dense: _Optional[_Union[_tensor_pb2.Tensor, _Mapping]] = ..., states: _Optional[_Union[_tensor_pb2.Tensor, _Mapping]] = ...) -> None: ...

class InitDenseReply(_message.Message):
    __slots__ = ("taken",)
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    taken: bool
    def __init__(self, taken: bool = ...) -> None: ...

class TableIds(_message.Message):
    __slots__ = ("table", "ids")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    table: int
    ids: _tensor_pb2.Tensor
    def __init__(self, table: _Optional[int] = ..., ids: _Optional[_Union[_tensor_pb2.Tensor, _Mapping]] = ...) -> None: ...

class PullRequest(_message.Message):
    __slots__ = ("mode", "member", "step", "tables", "dense_version", "wire_dtype", "compression", "recompute", "region", "reply_offset")
    MODE_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    DENSE_VERSION_FIELD_NUMBER: _ClassVar[int]
    WIRE_DTYPE_FIELD_NUMBER: _ClassVar[int]
    COMPRESSION_FIELD_NUMBER: _ClassVar[int]
    RECOMPUTE_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    REPLY_OFFSET_FIELD_NUMBER: _ClassVar[int]
    mode: PullMode
    member: int
    step: int
    tables: _containers.RepeatedCompositeFieldContainer[TableIds]
    dense_version: int
    wire_dtype: _tensor_pb2.DType
    compression: _tensor_pb2.Compression
    recompute: bool
    region: _tensor_pb2.Region
    reply_offset: int
    def __init__(self, mode: _Optional[_Union[PullMode, str]] = ..., member: _Optional[int] = ..., step: _Optional[int] = ..., tables: _Optional[_Iterable[_Union[TableIds, _Mapping]]] = ..., dense_version: _Optional[int] = ..., wire_dtype: _Optional[_Union[_tensor_pb2.DType, str]] = ..., compression: _Optional[_Union[_tensor_pb2.Compression, str]] = ..., recompute: bool = ..., region: _Optional[_Union[_tensor_pb2.Region, _Mapping]] = ..., reply_offset: _Optional[int] = ...) -> None: ...

class PullReply(_message.Message):
    __slots__ = ("version", "rows", "dense", "states", "dense_version", "iterations")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    DENSE_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    DENSE_VERSION_FIELD_NUMBER: _ClassVar[int]
    ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    version: int
    rows: _containers.RepeatedCompositeFieldContainer[_tensor_pb2.Tensor]
    dense: _tensor_pb2.Tensor
    states: _tensor_pb2.Tensor
    dense_version: int
    iterations: int
    def __init__(self, version: _Optional[int] = ..., rows: _Optional[_Iterable[_Union[_tensor_pb2.Tensor, _Mapping]]] = ..., dense: _Optional[_Union[_tensor_pb2.Tensor, _Mapping]] = ..., states: _Optional[_Union[_tensor_pb2.Tensor, _Mapping]] = ..., dense_version: _Optional[int] = ..., iterations: _Optional[int] = ...) -> None: ...

class BatchKey(_message.Message):
    __slots__ = ("epoch", "task", "batch")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    task: int
    batch: int
    def __init__(self, epoch: _Optional[int] = ..., task: _Optional[int] = ..., batch: _Optional[int] = ...) -> None: ...

class RowGradients(_message.Message):
    __slots__ = ("table", "ids", "gradients")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    GRADIENTS_FIELD_NUMBER: _ClassVar[int]
    table: int
    ids: _tensor_pb2.Tensor
    gradients: _tensor_pb2.Tensor
    def __init__(self, table: _Optional[int] = ..., ids: _Optional[_Union[_tensor_pb2.Tensor, _Mapping]] = ..., gradients: _Optional[_Union[_tensor_pb2.Tensor, _Mapping]] = ...) -> None: ...

class PushRequest(_message.Message):
    __slots__ = ("key", "examples", "member", "step", "pull_version", "tables", "dense", "state_deltas", "nonfinite", "region")
    KEY_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    PULL_VERSION_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    DENSE_FIELD_NUMBER: _ClassVar[int]
    STATE_DELTAS_FIELD_NUMBER: _ClassVar[int]
    NONFINITE_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    key: BatchKey
    examples: int
    member: int
    step: int
    pull_version: int
    tables: _containers.RepeatedCompositeFieldContainer[RowGradients]
    dense: _tensor_pb2.Tensor
    state_deltas: _tensor_pb2.Tensor
    nonfinite: bool
    region: _tensor_pb2.Region
    def __init__(self, key: _Optional[_Union[BatchKey, _Mapping]] = ..., examples: _Optional[int] = ..., member: _Optional[int] = ..., step: _Optional[int] = ..., pull_version: _Optional[int] = ..., tables: _Optional[_Iterable[_Union[RowGradients, _Mapping]]] = ..., dense: _Optional[_Union[_tensor_pb2.Tensor, _Mapping]] = ..., state_deltas: _Optional[_Union[_tensor_pb2.Tensor, _Mapping]] = ..., nonfinite: bool = ..., region: _Optional[_Union[_tensor_pb2.Region, _Mapping]] = ...) -> None: ...

class PushReply(_message.Message):
    __slots__ = ("status", "version", "staleness")
    class Status(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATUS_UNSPECIFIED: _ClassVar[PushReply.Status]
        APPLIED: _ClassVar[PushReply.Status]
        DUPLICATE: _ClassVar[PushReply.Status]
        REFUSED: _ClassVar[PushReply.Status]
        NONFINITE: _ClassVar[PushReply.Status]
    STATUS_UNSPECIFIED: PushReply.Status
    APPLIED: PushReply.Status
    DUPLICATE: PushReply.Status
    REFUSED: PushReply.Status
    NONFINITE: PushReply.Status
    STATUS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STALENESS_FIELD_NUMBER: _ClassVar[int]
    status: PushReply.Status
    version: int
    staleness: int
    def __init__(self, status: _Optional[_Union[PushReply.Status, str]] = ..., version: _Optional[int] = ..., staleness: _Optional[int] = ...) -> None: ...

class SetMembersRequest(_message.Message):
    __slots__ = ("number", "members")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    number: int
    members: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, number: _Optional[int] = ..., members: _Optional[_Iterable[int]] = ...) -> None: ...

class SetLearningRateRequest(_message.Message):
    __slots__ = ("optimizer", "learning_rate")
    OPTIMIZER_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    optimizer: int
    learning_rate: float
    def __init__(self, optimizer: _Optional[int] = ..., learning_rate: _Optional[float] = ...) -> None: ...

class ProgressRequest(_message.Message):
    __slots__ = ("epoch", "task")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    task: int
    def __init__(self, epoch: _Optional[int] = ..., task: _Optional[int] = ...) -> None: ...

class ProgressReply(_message.Message):
    __slots__ = ("batches", "examples")
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    batches: bytes
    examples: int
    def __init__(self, batches: _Optional[bytes] = ..., examples: _Optional[int] = ...) -> None: ...

class FlushReply(_message.Message):
    __slots__ = ("version", "iterations")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    version: int
    iterations: int
    def __init__(self, version: _Optional[int] = ..., iterations: _Optional[int] = ...) -> None: ...

class SnapshotRequest(_message.Message):
    __slots__ = ("folder",)
    FOLDER_FIELD_NUMBER: _ClassVar[int]
    folder: str
    def __init__(self, folder: _Optional[str] = ...) -> None: ...

class SnapshotReply(_message.Message):
    __slots__ = ("shard", "signature")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    shard: str
    signature: str
    def __init__(self, shard: _Optional[str] = ..., signature: _Optional[str] = ...) -> None: ...

class CutRequest(_message.Message):
    __slots__ = ("folder",)
    FOLDER_FIELD_NUMBER: _ClassVar[int]
    folder: str
    def __init__(self, folder: _Optional[str] = ...) -> None: ...

class CutReply(_message.Message):
    __slots__ = ("version", "iterations", "batches", "examples", "ledger_crc32c", "pause_seconds", "segment")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    LEDGER_CRC32C_FIELD_NUMBER: _ClassVar[int]
    PAUSE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    version: int
    iterations: int
    batches: int
    examples: int
    ledger_crc32c: int
    pause_seconds: float
    segment: int
    def __init__(self, version: _Optional[int] = ..., iterations: _Optional[int] = ..., batches: _Optional[int] = ..., examples: _Optional[int] = ..., ledger_crc32c: _Optional[int] = ..., pause_seconds: _Optional[float] = ..., segment: _Optional[int] = ...) -> None: ...

class AwaitSnapshotRequest(_message.Message):
    __slots__ = ("folder",)
    FOLDER_FIELD_NUMBER: _ClassVar[int]
    folder: str
    def __init__(self, folder: _Optional[str] = ...) -> None: ...

class CommitSnapshotRequest(_message.Message):
    __slots__ = ("segment",)
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    segment: int
    def __init__(self, segment: _Optional[int] = ...) -> None: ...

class TableStatus(_message.Message):
    __slots__ = ("name", "rows", "bytes")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    rows: int
    bytes: int
    def __init__(self, name: _Optional[str] = ..., rows: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class ShardStatus(_message.Message):
    __slots__ = ("shard", "version", "iterations", "rows", "bytes", "tables", "staleness_counts", "staleness_max", "staleness_sum", "examples_by_epoch", "batches", "refused_pushes", "nonfinite_pushes", "nonfinite_examples", "duplicate_pushes", "waiting_pulls", "members_number", "learning_rate", "signature_sha256", "pulled_bytes", "pushed_bytes", "journal_bytes", "journal_error", "replayed_pushes", "restore_loss", "uses_ema")
    class ExamplesByEpochEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    SHARD_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    STALENESS_COUNTS_FIELD_NUMBER: _ClassVar[int]
    STALENESS_MAX_FIELD_NUMBER: _ClassVar[int]
    STALENESS_SUM_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_BY_EPOCH_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    REFUSED_PUSHES_FIELD_NUMBER: _ClassVar[int]
    NONFINITE_PUSHES_FIELD_NUMBER: _ClassVar[int]
    NONFINITE_EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_PUSHES_FIELD_NUMBER: _ClassVar[int]
    WAITING_PULLS_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_NUMBER_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_SHA256_FIELD_NUMBER: _ClassVar[int]
    PULLED_BYTES_FIELD_NUMBER: _ClassVar[int]
    PUSHED_BYTES_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_ERROR_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_PUSHES_FIELD_NUMBER: _ClassVar[int]
    RESTORE_LOSS_FIELD_NUMBER: _ClassVar[int]
    USES_EMA_FIELD_NUMBER: _ClassVar[int]
    shard: int
    version: int
    iterations: int
    rows: int
    bytes: int
    tables: _containers.RepeatedCompositeFieldContainer[TableStatus]
    staleness_counts: _containers.RepeatedScalarFieldContainer[int]
    staleness_max: int
    staleness_sum: float
    examples_by_epoch: _containers.ScalarMap[int, int]
    batches: int
    refused_pushes: int
    nonfinite_pushes: int
    nonfinite_examples: int
    duplicate_pushes: int
    waiting_pulls: int
    members_number: int
    learning_rate: float
    signature_sha256: str
    pulled_bytes: int
    pushed_bytes: int
    journal_bytes: int
    journal_error: str
    replayed_pushes: int
    restore_loss: str
    uses_ema: bool
    def __init__(self, shard: _Optional[int] = ..., version: _Optional[int] = ..., iterations: _Optional[int] = ..., rows: _Optional[int] = ..., bytes: _Optional[int] = ..., tables: _Optional[_Iterable[_Union[TableStatus, _Mapping]]] = ..., staleness_counts: _Optional[_Iterable[int]] = ..., staleness_max: _Optional[int] = ..., staleness_sum: _Optional[float] = ..., examples_by_epoch: _Optional[_Mapping[int, int]] = ..., batches: _Optional[int] = ..., refused_pushes: _Optional[int] = ..., nonfinite_pushes: _Optional[int] = ..., nonfinite_examples: _Optional[int] = ..., duplicate_pushes: _Optional[int] = ..., waiting_pulls: _Optional[int] = ..., members_number: _Optional[int] = ..., learning_rate: _Optional[float] = ..., signature_sha256: _Optional[str] = ..., pulled_bytes: _Optional[int] = ..., pushed_bytes: _Optional[int] = ..., journal_bytes: _Optional[int] = ..., journal_error: _Optional[str] = ..., replayed_pushes: _Optional[int] = ..., restore_loss: _Optional[str] = ..., uses_ema: bool = ...) -> None: ...
