"""Repeats what a journal tells, on a shard that is not served."""

import contextlib
import dataclasses
from collections.abc import Callable, Generator, Sequence

from elastic_keras.ps.answers import Outcome
from elastic_keras.ps.errors import NotReadyError
from elastic_keras.ps.journal.records import (
    CorruptRecordError,
    Kind,
    Record,
    TornRecordError,
    array_text,
    bits_float,
    read,
)
from elastic_keras.ps.journal.segments import Segment
from elastic_keras.ps.log import push_of
from elastic_keras.ps.push import Push
from elastic_keras.ps.shard import Shard
from elastic_keras.signature import ModelSignature


@dataclasses.dataclass
class End:
    """Where the records that can be read end.

    Args:
        segment: Position of the segment, among those read.
        offset: Bytes of it that are good.
        sequence: Number of the next record.
        torn_bytes: Bytes of a record that was being written when its
            process was killed; nobody was told that it is there.
        loss: What is behind and should be there; empty for nothing.
    """

    segment: int = 0
    offset: int = 0
    sequence: int = 0
    torn_bytes: int = 0
    loss: str = ""


def records(
    segments: Sequence[Segment], end: End
) -> Generator[Record, None, None]:
    """Reads the records of segments, as far as they follow one another.

    Args:
        segments: The segments, ascending.
        end: Is kept at where the next record is.

    Yields:
        The records.

    Raises:
        OSError: A file cannot be opened.
    """
    for number, segment in enumerate(segments):
        end.segment, end.offset = number, 0
        is_last = number == len(segments) - 1
        size = segment.path.stat().st_size
        with open(segment.path, "rb") as file:
            try:
                for record in read(file):
                    if number + end.offset and record.sequence != end.sequence:
                        raise CorruptRecordError(
                            f"record {end.sequence} is missing"
                        )
                    yield record
                    end.offset = file.tell()
                    end.sequence = record.sequence + 1
            except TornRecordError as error:
                if is_last:
                    end.torn_bytes = size - end.offset
                else:
                    end.loss = str(error)
            except CorruptRecordError as error:
                end.loss = str(error)
        if end.loss:
            left = sum(s.path.stat().st_size for s in segments[number:])
            end.loss = (
                f"{left - end.offset} bytes from byte {end.offset} of "
                f"{segment.path} on: {end.loss}"
            )
            return
    if segments and segments[-1].is_broken:
        end.loss = f"what came after {segments[-1].path} could not be written"


class Repeater:
    """Repeats records on a shard.

    Args:
        shard: The shard, as it was when the first of them was written.
        keep: Which batches to take; `None` takes all. With a choice, what
            came of the others is left out as well, and so is the end of
            training.
    """

    def __init__(
        self, shard: Shard, keep: Callable[[Push], bool] | None = None
    ) -> None:
        self.pushes = 0
        self._shard = shard
        self._keep = keep

    def repeat(self, segments: Sequence[Segment]) -> End:
        """Repeats segments that follow one another.

        Args:
            segments: The segments, ascending.

        Returns:
            Where it came to an end.
        """
        end = End()
        reader = records(segments, end)
        for record in reader:
            try:
                self._repeat(record)
            except (NotReadyError, ValueError, IndexError) as error:
                if self._shard.failure is not None:
                    raise
                # Into the reader, which knows where this is.
                with contextlib.suppress(StopIteration):
                    reader.throw(
                        CorruptRecordError(f"record {record.sequence}: {error}")
                    )
        return end

    def _repeat(self, record: Record) -> None:
        shard, numbers = self._shard, record.numbers
        if record.kind is Kind.PUSH:
            self._repeat_push(record)
        elif record.kind is Kind.MODEL:
            text = array_text(record.arrays[0])
            shard.adopt(ModelSignature.from_json(text))
        elif record.kind is Kind.FIRST_VALUES:
            shard.init_dense(*record.arrays)
        elif record.kind is Kind.MEMBERS:
            shard.set_members(numbers[0], numbers[1:])
        elif record.kind is Kind.ORIGIN:
            shard.meet(*numbers)
        elif record.kind is Kind.FLUSH:
            shard.flush()
        elif record.kind is Kind.FINALIZE:
            if self._keep is None:
                shard.finalize()
        elif record.kind is Kind.LEARNING_RATE:
            shard.set_learning_rate(numbers[0], bits_float(numbers[1]))

    def _repeat_push(self, record: Record) -> None:
        push, outcome, judgement = push_of(record)
        if self._keep is not None and (
            outcome not in (Outcome.APPLIED, Outcome.NONFINITE)
            or not self._keep(push)
        ):
            return
        self._shard.repeat(push, outcome, judgement)
        self.pushes += outcome is Outcome.APPLIED
