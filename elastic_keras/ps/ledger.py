"""The ledger: which batches a shard has taken, so that none counts twice."""

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import google_crc32c
import numpy as np

# Tasks in a page; pages come into being when one of their tasks does.
PAGE_TASKS = 4096

# Batches of a task: bounds the bitmap that `progress` returns.
MAX_BATCHES = 1 << 24

MAX_TASKS = 1 << 48
MAX_EPOCHS = 1 << 32


@dataclasses.dataclass
class _Page:
    # Batches held without a gap from batch 0, per task.
    leading: np.ndarray
    # Examples of all batches held, per task.
    examples: np.ndarray


@dataclasses.dataclass
class _Epoch:
    pages: dict[int, _Page] = dataclasses.field(default_factory=dict)
    # Task -> batches held beyond the first gap.
    ahead: dict[int, set[int]] = dataclasses.field(default_factory=dict)
    # Task -> batches held that were refused for a NaN or Inf.
    nonfinite: dict[int, set[int]] = dataclasses.field(default_factory=dict)
    batches: int = 0
    examples: int = 0
    nonfinite_batches: int = 0
    nonfinite_examples: int = 0

    def page(self, task: int) -> _Page:
        number = task // PAGE_TASKS
        page = self.pages.get(number)
        if page is None:
            page = _Page(
                np.zeros(PAGE_TASKS, np.uint32), np.zeros(PAGE_TASKS, np.int64)
            )
            self.pages[number] = page
        return page

    def leading(self, task: int) -> int:
        page = self.pages.get(task // PAGE_TASKS)
        return 0 if page is None else int(page.leading[task % PAGE_TASKS])

    def task_examples(self, task: int) -> int:
        page = self.pages.get(task // PAGE_TASKS)
        return 0 if page is None else int(page.examples[task % PAGE_TASKS])


class Ledger:
    """Remembers each batch applied, or refused for a NaN or Inf.

    A task whose batches arrive in order costs 12 bytes; only batches ahead
    of a gap cost an entry each. A plain object: the caller locks.
    """

    def __init__(self) -> None:
        self._epochs: dict[int, _Epoch] = {}

    @property
    def batches(self) -> int:
        """Batches applied."""
        return sum(e.batches for e in self._epochs.values())

    @property
    def nonfinite_batches(self) -> int:
        """Batches refused for a NaN or Inf."""
        return sum(e.nonfinite_batches for e in self._epochs.values())

    @property
    def nonfinite_examples(self) -> int:
        """Examples of the batches refused for a NaN or Inf."""
        return sum(e.nonfinite_examples for e in self._epochs.values())

    def examples_by_epoch(self) -> dict[int, int]:
        """Returns the examples applied, per epoch."""
        return {
            number: epoch.examples
            for number, epoch in sorted(self._epochs.items())
        }

    def holds(self, epoch: int, task: int, batch: int) -> bool:
        """Returns whether the batch was applied or refused before."""
        book = self._epochs.get(epoch)
        if book is None:
            return False
        return batch < book.leading(task) or batch in book.ahead.get(task, ())

    def is_nonfinite(self, epoch: int, task: int, batch: int) -> bool:
        """Returns whether the batch was refused for a NaN or Inf."""
        book = self._epochs.get(epoch)
        return book is not None and batch in book.nonfinite.get(task, ())

    def add(
        self,
        epoch: int,
        task: int,
        batch: int,
        examples: int,
        *,
        nonfinite: bool = False,
    ) -> None:
        """Enters a batch.

        Args:
            epoch: Epoch of the task.
            task: Position of the task in the epoch.
            batch: Position of the batch in the task.
            examples: Examples in the batch.
            nonfinite: It was refused for a NaN or Inf, not applied.

        Raises:
            ValueError: The ledger holds it already, or a number is out of
                range.
        """
        check_key(epoch, task, batch)
        if self.holds(epoch, task, batch):
            raise ValueError(
                "The ledger holds this batch already. "
                f"Received: epoch={epoch}, task={task}, batch={batch}"
            )
        book = self._epochs.setdefault(epoch, _Epoch())
        page = book.page(task)
        place = task % PAGE_TASKS
        page.examples[place] += examples
        leading = int(page.leading[place])
        if batch == leading:
            ahead = book.ahead.get(task)
            leading += 1
            if ahead is not None:
                while leading in ahead:
                    ahead.remove(leading)
                    leading += 1
                if not ahead:
                    del book.ahead[task]
            page.leading[place] = leading
        else:
            book.ahead.setdefault(task, set()).add(batch)
        if nonfinite:
            book.nonfinite.setdefault(task, set()).add(batch)
            book.nonfinite_batches += 1
            book.nonfinite_examples += examples
        else:
            book.batches += 1
            book.examples += examples

    def progress(self, epoch: int, task: int) -> tuple[bytes, int]:
        """Tells where a task stands.

        Returns:
            A bitmap, bit i of the little-endian bytes for batch i, and the
            number of examples in the batches held.
        """
        book = self._epochs.get(epoch)
        if book is None:
            return b"", 0
        batches = np.asarray(self._task_batches(book, task), np.int64)
        if not batches.size:
            return b"", 0
        bits = np.zeros(int(batches[-1]) + 1, np.uint8)
        bits[batches] = 1
        bitmap = np.packbits(bits, bitorder="little").tobytes()
        return bitmap, book.task_examples(task)

    @staticmethod
    def _task_batches(book: _Epoch, task: int) -> list[int]:
        return [
            *range(book.leading(task)),
            *sorted(book.ahead.get(task, ())),
        ]

    def __iter__(self) -> Iterator[tuple[int, int, int, bool]]:
        """Yields (epoch, task, batch, nonfinite) in ascending order."""
        for number, book in sorted(self._epochs.items()):
            for page_number, page in sorted(book.pages.items()):
                # A task without examples of its own may be held ahead only.
                first = page_number * PAGE_TASKS
                tasks = {int(t) + first for t in np.flatnonzero(page.leading)}
                tasks |= {
                    t for t in book.ahead if t // PAGE_TASKS == page_number
                }
                for task in sorted(tasks):
                    refused = book.nonfinite.get(task, ())
                    for batch in self._task_batches(book, task):
                        yield number, task, batch, batch in refused

    def to_state(self) -> dict[str, Any]:
        """Returns everything as lists, ints and bytes, in a fixed order."""
        return {
            "epochs": [
                {
                    "epoch": number,
                    "examples": book.examples,
                    "nonfinite_examples": book.nonfinite_examples,
                    "pages": [
                        [
                            page_number,
                            page.leading.astype("<u4").tobytes(),
                            page.examples.astype("<i8").tobytes(),
                        ]
                        for page_number, page in sorted(book.pages.items())
                    ],
                    "ahead": _listed(book.ahead),
                    "nonfinite": _listed(book.nonfinite),
                }
                for number, book in sorted(self._epochs.items())
            ]
        }

    def checksum(self) -> int:
        """Returns a CRC32C of everything."""
        crc = 0
        for epoch in self.to_state()["epochs"]:
            pages = epoch.pop("pages")
            parts = [json.dumps(epoch).encode()]
            for number, leading, examples in pages:
                parts += [number.to_bytes(8, "little"), leading, examples]
            for part in parts:
                crc = google_crc32c.extend(crc, part)
        return int(crc)

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Ledger":
        """Reads what `to_state` returned."""
        ledger = cls()
        for raw in state["epochs"]:
            book = _Epoch(
                examples=raw["examples"],
                nonfinite_examples=raw["nonfinite_examples"],
                ahead={task: set(batches) for task, batches in raw["ahead"]},
                nonfinite={
                    task: set(batches) for task, batches in raw["nonfinite"]
                },
            )
            for number, leading, examples in raw["pages"]:
                book.pages[number] = _Page(
                    np.frombuffer(leading, "<u4").astype(np.uint32),
                    np.frombuffer(examples, "<i8").astype(np.int64),
                )
            held = sum(int(p.leading.sum()) for p in book.pages.values())
            held += sum(map(len, book.ahead.values()))
            book.nonfinite_batches = sum(map(len, book.nonfinite.values()))
            book.batches = held - book.nonfinite_batches
            ledger._epochs[raw["epoch"]] = book
        return ledger


def check_key(epoch: int, task: int, batch: int) -> None:
    """Checks that a batch's identity is in range.

    Raises:
        ValueError: It is not; the message names the field.
    """
    for name, value, limit in (
        ("epoch", epoch, MAX_EPOCHS),
        ("task", task, MAX_TASKS),
        ("batch", batch, MAX_BATCHES),
    ):
        if not 0 <= value < limit:
            raise ValueError(
                f"key.{name}: must lie in [0, {limit}). "
                f"Received: {name}={value}"
            )


def _listed(batches: dict[int, set[int]]) -> list[list[Any]]:
    return [[task, sorted(held)] for task, held in sorted(batches.items())]
