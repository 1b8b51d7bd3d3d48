"""Messages to what a shard understands, and back; no state."""

import dataclasses
from collections.abc import Callable

import numpy as np

from elastic_keras.ps import push as pushes
from elastic_keras.ps.answers import Outcome, Pulled, PushResult
from elastic_keras.ps.cut import Moment
from elastic_keras.ps.status import ShardReport
from elastic_keras.wire import tensors
from elastic_keras.wire.proto import ps_pb2, tensor_pb2
from elastic_keras.wire.shared_memory import Writer

_FLOAT32 = np.dtype(np.float32)

_STATUSES = {
    Outcome.APPLIED: ps_pb2.PushReply.APPLIED,
    Outcome.DUPLICATE: ps_pb2.PushReply.DUPLICATE,
    Outcome.REFUSED: ps_pb2.PushReply.REFUSED,
    Outcome.NONFINITE: ps_pb2.PushReply.NONFINITE,
}


def pull(
    request: ps_pb2.PullRequest,
    region: np.ndarray | None,
    read: Callable[..., Pulled],
) -> ps_pb2.PullReply:
    """Answers a pull that was granted.

    Args:
        request: The pull.
        region: Its shared memory, uint8 of shape (n,), if there is any.
        read: `Shard.pull`.

    Raises:
        WireError: A tensor or an option is broken.
    """
    wire_dtype = tensors.wire_dtype_name(request.wire_dtype)
    compression = tensors.compression_name(request.compression)
    writer = None if region is None else Writer(region, request.reply_offset)
    asked = [
        (entry.table, _ids(entry.ids, entry.table, region))
        for entry in request.tables
    ]
    # What is sent as it is can be read to where it is to lie.
    plain = wire_dtype == "float32" and compression == "none"
    if writer is not None and plain:
        pulled = read(
            asked,
            dense_version=request.dense_version,
            empty=lambda shape: writer.empty(shape, _FLOAT32),
        )
    else:
        pulled = read(asked, dense_version=request.dense_version)
    return _pull_reply(pulled, wire_dtype, compression, writer)


def _ids(
    tensor: tensor_pb2.Tensor, table: int, region: np.ndarray | None
) -> np.ndarray:
    ids = tensors.decode(
        tensor,
        name=f"tables[{table}].ids",
        dtype=np.int64,
        shape=(None,),
        region=region,
    )
    # What was checked must not change any more: an id that comes twice would
    # break the index. A gradient is only a number.
    return ids.copy() if tensor.region_bytes else ids


def flat(
    message: ps_pb2.PushRequest | ps_pb2.InitDenseRequest,
    name: str,
    region: np.ndarray | None = None,
) -> np.ndarray:
    """Returns a flat float32 array; an absent one has no elements.

    Args:
        message: The request.
        name: Its field.
        region: As for `push`.

    Raises:
        WireError: The tensor is broken.
    """
    if not message.HasField(name):  # type: ignore[arg-type]
        return np.empty(0, np.float32)
    return tensors.decode(
        getattr(message, name),
        name=name,
        dtype=np.float32,
        shape=(None,),
        region=region,
    )


def push(request: ps_pb2.PushRequest, region: np.ndarray | None) -> pushes.Push:
    """Returns a push as the shard takes it.

    Args:
        request: The push.
        region: Its shared memory, uint8 of shape (n,), if there is any.
            Gradients are then views of it: good until the push is answered.

    Raises:
        WireError: A tensor is broken.
    """
    gradients = None
    if not request.nonfinite:
        gradients = pushes.Gradients(
            rows=[
                pushes.Rows(
                    entry.table,
                    _ids(entry.ids, entry.table, region),
                    tensors.decode(
                        entry.gradients,
                        name=f"tables[{entry.table}].gradients",
                        dtype=np.float32,
                        shape=(None, None),
                        region=region,
                    ),
                )
                for entry in request.tables
            ],
            dense=flat(request, "dense", region),
            state_deltas=flat(request, "state_deltas", region),
        )
    return pushes.Push(
        epoch=request.key.epoch,
        task=request.key.task,
        batch=request.key.batch,
        examples=request.examples,
        member=request.member,
        step=request.step,
        pull_version=request.pull_version,
        gradients=gradients,
        nonfinite=request.nonfinite,
    )


def _pull_reply(
    pulled: Pulled, wire_dtype: str, compression: str, region: Writer | None
) -> ps_pb2.PullReply:
    reply = ps_pb2.PullReply(
        version=pulled.version,
        dense_version=pulled.dense_version,
        iterations=pulled.iterations,
    )

    def put(tensor: tensor_pb2.Tensor, array: np.ndarray, kind: str) -> None:
        tensors.encode_into(
            tensor,
            array,
            wire_dtype=kind,
            compression=compression,
            region=region,
        )

    for rows in pulled.rows:
        put(reply.rows.add(), rows, wire_dtype)
    if pulled.dense is not None:
        put(reply.dense, pulled.dense, wire_dtype)
    if pulled.states is not None:
        # Changes too small for half precision add up: never narrowed.
        put(reply.states, pulled.states, "float32")
    return reply


def push_reply(result: PushResult) -> ps_pb2.PushReply:
    """Returns the answer to a push."""
    return ps_pb2.PushReply(
        status=_STATUSES[result.outcome],
        version=result.version,
        staleness=result.staleness,
    )


def cut_reply(moment: Moment) -> ps_pb2.CutReply:
    """Returns what a shard was at a cut."""
    return ps_pb2.CutReply(**dataclasses.asdict(moment))


def status(
    report: ShardReport, shard: int, waiting_pulls: int
) -> ps_pb2.ShardStatus:
    """Returns a shard's state in numbers.

    Args:
        report: The shard's.
        shard: Its index.
        waiting_pulls: Pulls that wait to be granted.
    """
    message = ps_pb2.ShardStatus(
        shard=shard,
        version=report.version,
        iterations=report.iterations,
        rows=sum(table.rows for table in report.tables),
        bytes=report.nbytes,
        staleness_counts=report.staleness_counts,
        staleness_max=report.staleness_max,
        staleness_sum=report.staleness_sum,
        examples_by_epoch=report.examples_by_epoch,
        batches=report.batches,
        refused_pushes=report.refused_pushes,
        nonfinite_pushes=report.nonfinite_pushes,
        nonfinite_examples=report.nonfinite_examples,
        duplicate_pushes=report.duplicate_pushes,
        waiting_pulls=waiting_pulls,
        members_number=report.members_number,
        learning_rate=report.learning_rate,
        signature_sha256=report.signature_sha256,
        uses_ema=report.uses_ema,
        pulled_bytes=report.pulled_bytes,
        pushed_bytes=report.pushed_bytes,
    )
    for table in report.tables:
        message.tables.add(name=table.name, rows=table.rows, bytes=table.nbytes)
    return message
