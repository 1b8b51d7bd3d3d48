"""What a shard tells its journal."""

from collections.abc import Sequence

import numpy as np

from elastic_keras.ps.answers import Outcome
from elastic_keras.ps.journal.journal import Journal
from elastic_keras.ps.journal.records import (
    CorruptRecordError,
    Kind,
    Record,
    bits_float,
    float_bits,
    text_array,
)
from elastic_keras.ps.push import Gradients, Push, Rows
from elastic_keras.ps.staleness import Judgement
from elastic_keras.signature import ModelSignature

_OUTCOMES = (
    Outcome.APPLIED,
    Outcome.DUPLICATE,
    Outcome.REFUSED,
    Outcome.NONFINITE,
)


class ShardLog:
    """Writes each change of a shard to its journal, if it has one.

    The caller calls in the order of the changes, before it answers.
    """

    def __init__(self) -> None:
        self._journal: Journal | None = None

    @property
    def journal(self) -> Journal | None:
        """The journal."""
        return self._journal

    def write_to(self, journal: Journal) -> None:
        """Names the journal; what happened before must be in it."""
        self._journal = journal

    def model(self, signature: ModelSignature) -> None:
        """The model was adopted."""
        self._append(Kind.MODEL, (), (text_array(signature.to_json()),))

    def first_values(self, dense: np.ndarray, states: np.ndarray) -> None:
        """First values were taken."""
        self._append(Kind.FIRST_VALUES, (), (dense, states))

    def members(self, number: int, members: Sequence[int]) -> None:
        """A newer list of members was taken."""
        self._append(Kind.MEMBERS, (number, *members))

    def origin(self, member: int, step: int) -> None:
        """A member was met for the first time, at this step."""
        self._append(Kind.ORIGIN, (member, step))

    def push(self, push: Push, outcome: Outcome, judgement: Judgement) -> None:
        """A push was judged; if its gradients are to be applied, they are.

        Args:
            push: The push.
            outcome: What becomes of it.
            judgement: Its staleness and factor, where it is to be applied.
        """
        numbers = [
            _OUTCOMES.index(outcome),
            *push.key,
            push.examples,
            push.member,
            push.step,
            judgement.staleness,
            float_bits(judgement.rate_factor),
        ]
        arrays: list[np.ndarray] = []
        if outcome is Outcome.APPLIED and push.gradients is not None:
            for rows in push.gradients.rows:
                numbers.append(rows.table)
                arrays += [rows.ids, rows.gradients]
            arrays += [push.gradients.dense, push.gradients.state_deltas]
        self._append(Kind.PUSH, numbers, arrays)

    def flush(self) -> None:
        """What was buffered is applied."""
        self._append(Kind.FLUSH, ())

    def finalize(self) -> None:
        """Parameters become their averages."""
        self._append(Kind.FINALIZE, ())

    def learning_rate(self, optimizer: int, rate: float) -> None:
        """An optimizer's rate was fixed."""
        self._append(Kind.LEARNING_RATE, (optimizer, float_bits(rate)))

    def _append(
        self,
        kind: Kind,
        numbers: Sequence[int],
        arrays: Sequence[np.ndarray] = (),
    ) -> None:
        if self._journal is not None:
            self._journal.append(kind, numbers, arrays)


def push_of(record: Record) -> tuple[Push, Outcome, Judgement]:
    """Returns the push that a record tells of.

    Args:
        record: One of kind PUSH.

    Returns:
        What `ShardLog.push` was given; the version of the pull is lost.

    Raises:
        CorruptRecordError: It is none.
    """
    try:
        outcome, epoch, task, batch, examples = record.numbers[:5]
        member, step, staleness, factor, *tables = record.numbers[5:]
        gradients = None
        if record.arrays:
            *rows, dense, state_deltas = record.arrays
            pairs = zip(tables, rows[::2], rows[1::2], strict=True)
            gradients = Gradients(
                [Rows(*row) for row in pairs], dense, state_deltas
            )
        push = Push(
            epoch=epoch,
            task=task,
            batch=batch,
            examples=examples,
            member=member,
            step=step,
            pull_version=0,
            gradients=gradients,
            nonfinite=gradients is None,
        )
        judged = Judgement(False, staleness, bits_float(factor))
        return push, _OUTCOMES[outcome], judged
    except (ValueError, IndexError) as error:
        raise CorruptRecordError(
            f"record {record.sequence} is no push: {error}"
        ) from error
