"""A push as arrays, and everything that must be true of it."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from elastic_keras.ps import checks, ledger
from elastic_keras.ps.errors import BadRequestError
from elastic_keras.routing import ShardPlacement
from elastic_keras.signature import ModelSignature

# Bounds that no job reaches; a number beyond them is a broken message.
MAX_EXAMPLES = 1 << 31
MAX_MEMBER = 1 << 62
MAX_STEP = 1 << 62


@dataclasses.dataclass(frozen=True)
class Rows:
    """Gradients of one table.

    Args:
        table: The table's position in the signature.
        ids: int64, unique, shape (n,).
        gradients: float32, shape (n, dim).
    """

    table: int
    ids: np.ndarray
    gradients: np.ndarray


@dataclasses.dataclass(frozen=True)
class Gradients:
    """What an update is made of.

    Args:
        rows: Gradients of tables, each table at most once.
        dense: Flat float32 in routing order, shape (dense_size,).
        state_deltas: Flat float32 in routing order, shape (states_size,).
    """

    rows: Sequence[Rows]
    dense: np.ndarray
    state_deltas: np.ndarray

    @property
    def nbytes(self) -> int:
        """Size of all gradients and changes."""
        rows = sum(rows.gradients.nbytes for rows in self.rows)
        return rows + self.dense.nbytes + self.state_deltas.nbytes


@dataclasses.dataclass(frozen=True)
class Push:
    """A batch's gradients for one shard.

    Args:
        epoch: Epoch of the batch's task.
        task: The task.
        batch: The batch's position in the task.
        examples: Examples in the batch.
        member: Who pushes.
        step: The member's step.
        pull_version: The version that the batch's pull returned.
        gradients: The gradients, `None` with `nonfinite`.
        nonfinite: The worker found a NaN or Inf.
    """

    epoch: int
    task: int
    batch: int
    examples: int
    member: int
    step: int
    pull_version: int
    gradients: Gradients | None
    nonfinite: bool = False

    @property
    def key(self) -> tuple[int, int, int]:
        """(epoch, task, batch), the identity in the ledger."""
        return self.epoch, self.task, self.batch


def check_push(
    push: Push,
    signature: ModelSignature,
    placement: ShardPlacement,
    shard: int,
    num_shards: int,
) -> None:
    """Checks all of a push that does not depend on the shard's state.

    Args:
        push: The push.
        signature: The model.
        placement: What this shard owns.
        shard: This shard's index.
        num_shards: Number of shards.

    Raises:
        BadRequestError: Something is wrong; the message names the field.
    """
    try:
        ledger.check_key(*push.key)
    except ValueError as error:
        raise BadRequestError(str(error)) from error
    check_range("examples", push.examples, MAX_EXAMPLES)
    check_range("member", push.member, MAX_MEMBER)
    check_range("step", push.step, MAX_STEP)
    check_range("pull_version", push.pull_version, MAX_STEP)
    if push.nonfinite:
        return
    if push.gradients is None:
        raise BadRequestError("gradients: absent, and nonfinite is not set.")
    _check_flat("dense", push.gradients.dense, placement.dense_size)
    _check_flat(
        "state_deltas", push.gradients.state_deltas, placement.states_size
    )
    seen: set[int] = set()
    for rows in push.gradients.rows:
        check_table(rows.table, signature)
        if rows.table in seen:
            raise BadRequestError(
                "tables: a table comes at most once. "
                f"Received: table={rows.table} twice"
            )
        seen.add(rows.table)
        _check_rows(rows, signature, shard, num_shards)


def check_range(name: str, value: int, limit: int) -> None:
    """Checks that a number lies in [0, limit).

    Raises:
        BadRequestError: It does not.
    """
    if not 0 <= value < limit:
        raise BadRequestError(
            f"{name}: must lie in [0, {limit}). Received: {name}={value}"
        )


def check_table(table: int, signature: ModelSignature) -> None:
    """Checks a table's position.

    Raises:
        BadRequestError: The model has no such table.
    """
    if not 0 <= table < len(signature.tables):
        raise BadRequestError(
            f"table: the model has {len(signature.tables)} tables. "
            f"Received: table={table}"
        )


def check_ids(name: str, ids: np.ndarray, shard: int, num_shards: int) -> None:
    """Checks ids by themselves: dtype, shape, owner.

    Raises:
        BadRequestError: Not int64 of shape (n,), or an id that another
            shard owns.
    """
    if ids.dtype != np.int64 or ids.ndim != 1:
        raise BadRequestError(
            f"{name}.ids: must be int64 of shape (n,). "
            f"Received: dtype={ids.dtype}, shape={ids.shape}"
        )
    if num_shards == 1:
        return
    place = checks.first_of_other_shard(ids, shard, num_shards)
    if place >= 0:
        raise BadRequestError(
            f"{name}.ids: shard {shard} of {num_shards} does not own them "
            f"all. Received: id={ids[place]} at position {place}"
        )


def _check_rows(
    rows: Rows, signature: ModelSignature, shard: int, num_shards: int
) -> None:
    spec = signature.tables[rows.table]
    name = f"tables[{spec.name}]"
    check_ids(name, rows.ids, shard, num_shards)
    place = checks.first_repeated(rows.ids)
    if place >= 0:
        raise BadRequestError(
            f"{name}.ids: must be unique. "
            f"Received: id={rows.ids[place]} again at position {place}"
        )
    expected = (len(rows.ids), spec.dim)
    values = rows.gradients
    if values.dtype != np.float32 or values.shape != expected:
        raise BadRequestError(
            f"{name}.gradients: must be float32 of shape {expected}. "
            f"Received: dtype={values.dtype}, shape={values.shape}"
        )


def _check_flat(name: str, values: np.ndarray, size: int) -> None:
    if values.dtype != np.float32 or values.shape != (size,):
        raise BadRequestError(
            f"{name}: must be float32 of shape ({size},). "
            f"Received: dtype={values.dtype}, shape={values.shape}"
        )


def check_first_values(
    dense: np.ndarray, states: np.ndarray, placement: ShardPlacement
) -> None:
    """Checks the first values of dense parameters and states.

    Raises:
        BadRequestError: A shape or dtype does not fit, or a dense value is
            NaN or Inf.
    """
    _check_flat("dense", dense, placement.dense_size)
    _check_flat("states", states, placement.states_size)
    if not checks.all_finite(dense):
        raise BadRequestError("dense: first values hold a NaN or Inf.")


def is_finite(gradients: Gradients) -> bool:
    """Returns whether no value is NaN or Inf."""
    return (
        checks.all_finite(gradients.dense)
        and checks.all_finite(gradients.state_deltas)
        and all(checks.all_finite(rows.gradients) for rows in gradients.rows)
    )
