from elastic_keras.wire.proto import ps_pb2 as _ps_pb2
from elastic_keras.wire.proto import tensor_pb2 as _tensor_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TaskKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASK_WAIT: _ClassVar[TaskKind]
    TASK_TRAIN: _ClassVar[TaskKind]
    TASK_EVALUATE: _ClassVar[TaskKind]
    TASK_PREDICT: _ClassVar[TaskKind]
    TASK_MERGE: _ClassVar[TaskKind]
    TASK_CALLBACK: _ClassVar[TaskKind]
    TASK_STOP: _ClassVar[TaskKind]
TASK_WAIT: TaskKind
TASK_TRAIN: TaskKind
TASK_EVALUATE: TaskKind
TASK_PREDICT: TaskKind
TASK_MERGE: TaskKind
TASK_CALLBACK: TaskKind
TASK_STOP: TaskKind

class WorkerJoinRequest(_message.Message):
    __slots__ = ("job_id", "protocol_version", "index", "pid", "host", "signature", "has_callbacks")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    HAS_CALLBACKS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    protocol_version: int
    index: int
    pid: int
    host: str
    signature: str
    has_callbacks: bool
    def __init__(self, job_id: _Optional[str] = ..., protocol_version: _Optional[int] = ..., index: _Optional[int] = ..., pid: _Optional[int] = ..., host: _Optional[str] = ..., signature: _Optional[str] = ..., has_callbacks: bool = ...) -> None: ...

class WorkerJoinReply(_message.Message):
    __slots__ = ("worker", "chief", "sample")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    CHIEF_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    worker: int
    chief: bool
    sample: RecordRange
    def __init__(self, worker: _Optional[int] = ..., chief: bool = ..., sample: _Optional[_Union[RecordRange, _Mapping]] = ...) -> None: ...

class RecordRange(_message.Message):
    __slots__ = ("source", "start", "count", "byte_start", "byte_end")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    BYTE_START_FIELD_NUMBER: _ClassVar[int]
    BYTE_END_FIELD_NUMBER: _ClassVar[int]
    source: str
    start: int
    count: int
    byte_start: int
    byte_end: int
    def __init__(self, source: _Optional[str] = ..., start: _Optional[int] = ..., count: _Optional[int] = ..., byte_start: _Optional[int] = ..., byte_end: _Optional[int] = ...) -> None: ...

class Task(_message.Message):
    __slots__ = ("kind", "task", "epoch", "range", "lease", "member", "shuffle_seed", "resumed", "hook", "logs", "states", "step")
    KIND_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    RANGE_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    SHUFFLE_SEED_FIELD_NUMBER: _ClassVar[int]
    RESUMED_FIELD_NUMBER: _ClassVar[int]
    HOOK_FIELD_NUMBER: _ClassVar[int]
    LOGS_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    kind: TaskKind
    task: int
    epoch: int
    range: RecordRange
    lease: int
    member: int
    shuffle_seed: int
    resumed: bool
    hook: str
    logs: str
    states: MetricStates
    step: int
    def __init__(self, kind: _Optional[_Union[TaskKind, str]] = ..., task: _Optional[int] = ..., epoch: _Optional[int] = ..., range: _Optional[_Union[RecordRange, _Mapping]] = ..., lease: _Optional[int] = ..., member: _Optional[int] = ..., shuffle_seed: _Optional[int] = ..., resumed: bool = ..., hook: _Optional[str] = ..., logs: _Optional[str] = ..., states: _Optional[_Union[MetricStates, _Mapping]] = ..., step: _Optional[int] = ...) -> None: ...

class MetricStates(_message.Message):
    __slots__ = ("metrics",)
    class MetricsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: TensorList
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[TensorList, _Mapping]] = ...) -> None: ...
    METRICS_FIELD_NUMBER: _ClassVar[int]
    metrics: _containers.MessageMap[str, TensorList]
    def __init__(self, metrics: _Optional[_Mapping[str, TensorList]] = ...) -> None: ...

class TensorList(_message.Message):
    __slots__ = ("tensors",)
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    tensors: _containers.RepeatedCompositeFieldContainer[_tensor_pb2.Tensor]
    def __init__(self, tensors: _Optional[_Iterable[_Union[_tensor_pb2.Tensor, _Mapping]]] = ...) -> None: ...

class GetTaskRequest(_message.Message):
    __slots__ = ("worker", "interrupted", "call")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    INTERRUPTED_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    worker: int
    interrupted: bool
    call: int
    def __init__(self, worker: _Optional[int] = ..., interrupted: bool = ..., call: _Optional[int] = ...) -> None: ...

class ReportTaskRequest(_message.Message):
    __slots__ = ("worker", "lease", "error", "released", "records", "examples", "bad_records", "batches", "states", "result", "fatal", "exit_code")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    BAD_RECORDS_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    FATAL_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    worker: int
    lease: int
    error: str
    released: bool
    records: int
    examples: int
    bad_records: int
    batches: int
    states: MetricStates
    result: str
    fatal: bool
    exit_code: int
    def __init__(self, worker: _Optional[int] = ..., lease: _Optional[int] = ..., error: _Optional[str] = ..., released: bool = ..., records: _Optional[int] = ..., examples: _Optional[int] = ..., bad_records: _Optional[int] = ..., batches: _Optional[int] = ..., states: _Optional[_Union[MetricStates, _Mapping]] = ..., result: _Optional[str] = ..., fatal: bool = ..., exit_code: _Optional[int] = ...) -> None: ...

class ReserveStepsRequest(_message.Message):
    __slots__ = ("worker", "done", "returned", "want", "call")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    RETURNED_FIELD_NUMBER: _ClassVar[int]
    WANT_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    worker: int
    done: int
    returned: int
    want: int
    call: int
    def __init__(self, worker: _Optional[int] = ..., done: _Optional[int] = ..., returned: _Optional[int] = ..., want: _Optional[int] = ..., call: _Optional[int] = ...) -> None: ...

class ReserveStepsReply(_message.Message):
    __slots__ = ("granted", "evaluate", "stop", "member")
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    EVALUATE_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    granted: int
    evaluate: bool
    stop: bool
    member: int
    def __init__(self, granted: _Optional[int] = ..., evaluate: bool = ..., stop: bool = ..., member: _Optional[int] = ...) -> None: ...

class LatencyStats(_message.Message):
    __slots__ = ("count", "seconds", "max_seconds", "bytes")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    MAX_SECONDS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    count: int
    seconds: float
    max_seconds: float
    bytes: int
    def __init__(self, count: _Optional[int] = ..., seconds: _Optional[float] = ..., max_seconds: _Optional[float] = ..., bytes: _Optional[int] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("worker", "steps", "examples", "loss_sum", "seconds", "pull", "push", "metrics", "stop_training", "computing_seconds")
    class MetricsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    WORKER_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    LOSS_SUM_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    PULL_FIELD_NUMBER: _ClassVar[int]
    PUSH_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    STOP_TRAINING_FIELD_NUMBER: _ClassVar[int]
    COMPUTING_SECONDS_FIELD_NUMBER: _ClassVar[int]
    worker: int
    steps: int
    examples: int
    loss_sum: float
    seconds: float
    pull: LatencyStats
    push: LatencyStats
    metrics: _containers.ScalarMap[str, float]
    stop_training: bool
    computing_seconds: float
    def __init__(self, worker: _Optional[int] = ..., steps: _Optional[int] = ..., examples: _Optional[int] = ..., loss_sum: _Optional[float] = ..., seconds: _Optional[float] = ..., pull: _Optional[_Union[LatencyStats, _Mapping]] = ..., push: _Optional[_Union[LatencyStats, _Mapping]] = ..., metrics: _Optional[_Mapping[str, float]] = ..., stop_training: bool = ..., computing_seconds: _Optional[float] = ...) -> None: ...

class HeartbeatReply(_message.Message):
    __slots__ = ("stop", "unknown", "chief", "workers_alive", "stop_training")
    STOP_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    CHIEF_FIELD_NUMBER: _ClassVar[int]
    WORKERS_ALIVE_FIELD_NUMBER: _ClassVar[int]
    STOP_TRAINING_FIELD_NUMBER: _ClassVar[int]
    stop: bool
    unknown: bool
    chief: bool
    workers_alive: int
    stop_training: bool
    def __init__(self, stop: bool = ..., unknown: bool = ..., chief: bool = ..., workers_alive: _Optional[int] = ..., stop_training: bool = ...) -> None: ...

class LeaveRequest(_message.Message):
    __slots__ = ("worker", "index", "pid")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    worker: int
    index: int
    pid: int
    def __init__(self, worker: _Optional[int] = ..., index: _Optional[int] = ..., pid: _Optional[int] = ...) -> None: ...

class ScaleJobRequest(_message.Message):
    __slots__ = ("num_workers",)
    NUM_WORKERS_FIELD_NUMBER: _ClassVar[int]
    num_workers: int
    def __init__(self, num_workers: _Optional[int] = ...) -> None: ...

class StopJobRequest(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class JobStatus(_message.Message):
    __slots__ = ("phase", "epoch", "num_epochs", "records_done", "records_expected", "steps", "examples_per_second", "seconds_left", "loss", "metrics", "evaluation", "staleness_max", "staleness_mean", "workers_alive", "tasks_waiting", "tasks_running", "error", "exit_code", "message", "workers_wanted")
    class MetricsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    class EvaluationEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    PHASE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    NUM_EPOCHS_FIELD_NUMBER: _ClassVar[int]
    RECORDS_DONE_FIELD_NUMBER: _ClassVar[int]
    RECORDS_EXPECTED_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    SECONDS_LEFT_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    EVALUATION_FIELD_NUMBER: _ClassVar[int]
    STALENESS_MAX_FIELD_NUMBER: _ClassVar[int]
    STALENESS_MEAN_FIELD_NUMBER: _ClassVar[int]
    WORKERS_ALIVE_FIELD_NUMBER: _ClassVar[int]
    TASKS_WAITING_FIELD_NUMBER: _ClassVar[int]
    TASKS_RUNNING_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    WORKERS_WANTED_FIELD_NUMBER: _ClassVar[int]
    phase: str
    epoch: int
    num_epochs: int
    records_done: int
    records_expected: int
    steps: int
    examples_per_second: float
    seconds_left: float
    loss: float
    metrics: _containers.ScalarMap[str, float]
    evaluation: _containers.ScalarMap[str, float]
    staleness_max: int
    staleness_mean: float
    workers_alive: int
    tasks_waiting: int
    tasks_running: int
    error: str
    exit_code: int
    message: str
    workers_wanted: int
    def __init__(self, phase: _Optional[str] = ..., epoch: _Optional[int] = ..., num_epochs: _Optional[int] = ..., records_done: _Optional[int] = ..., records_expected: _Optional[int] = ..., steps: _Optional[int] = ..., examples_per_second: _Optional[float] = ..., seconds_left: _Optional[float] = ..., loss: _Optional[float] = ..., metrics: _Optional[_Mapping[str, float]] = ..., evaluation: _Optional[_Mapping[str, float]] = ..., staleness_max: _Optional[int] = ..., staleness_mean: _Optional[float] = ..., workers_alive: _Optional[int] = ..., tasks_waiting: _Optional[int] = ..., tasks_running: _Optional[int] = ..., error: _Optional[str] = ..., exit_code: _Optional[int] = ..., message: _Optional[str] = ..., workers_wanted: _Optional[int] = ...) -> None: ...

class JobDescription(_message.Message):
    __slots__ = ("job_id", "status", "seconds", "workers", "shards", "restarts")
    class RestartsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    status: JobStatus
    seconds: float
    workers: _containers.RepeatedCompositeFieldContainer[WorkerStatus]
    shards: _containers.RepeatedCompositeFieldContainer[ShardLoad]
    restarts: _containers.ScalarMap[str, int]
    def __init__(self, job_id: _Optional[str] = ..., status: _Optional[_Union[JobStatus, _Mapping]] = ..., seconds: _Optional[float] = ..., workers: _Optional[_Iterable[_Union[WorkerStatus, _Mapping]]] = ..., shards: _Optional[_Iterable[_Union[ShardLoad, _Mapping]]] = ..., restarts: _Optional[_Mapping[str, int]] = ...) -> None: ...

class WorkerStatus(_message.Message):
    __slots__ = ("index", "alive", "training", "steps", "examples", "examples_per_second", "own_seconds", "pull_seconds", "push_seconds")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ALIVE_FIELD_NUMBER: _ClassVar[int]
    TRAINING_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    OWN_SECONDS_FIELD_NUMBER: _ClassVar[int]
    PULL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    PUSH_SECONDS_FIELD_NUMBER: _ClassVar[int]
    index: int
    alive: bool
    training: bool
    steps: int
    examples: int
    examples_per_second: float
    own_seconds: float
    pull_seconds: float
    push_seconds: float
    def __init__(self, index: _Optional[int] = ..., alive: bool = ..., training: bool = ..., steps: _Optional[int] = ..., examples: _Optional[int] = ..., examples_per_second: _Optional[float] = ..., own_seconds: _Optional[float] = ..., pull_seconds: _Optional[float] = ..., push_seconds: _Optional[float] = ...) -> None: ...

class ShardLoad(_message.Message):
    __slots__ = ("status", "pulled_bytes_per_second", "pushed_bytes_per_second")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    PULLED_BYTES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    PUSHED_BYTES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    status: _ps_pb2.ShardStatus
    pulled_bytes_per_second: float
    pushed_bytes_per_second: float
    def __init__(self, status: _Optional[_Union[_ps_pb2.ShardStatus, _Mapping]] = ..., pulled_bytes_per_second: _Optional[float] = ..., pushed_bytes_per_second: _Optional[float] = ...) -> None: ...
