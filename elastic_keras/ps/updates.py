"""How pushes become updates of a shard's parameters."""

import contextlib
from collections.abc import Iterator

from elastic_keras.ps.answers import Outcome
from elastic_keras.ps.books import Books
from elastic_keras.ps.buffer import GradientBuffer
from elastic_keras.ps.log import ShardLog
from elastic_keras.ps.parameters import Parameters
from elastic_keras.ps.push import Push
from elastic_keras.ps.staleness import Judgement


class Updates:
    """Applies pushes, several at once with `--grads_to_wait`.

    Not safe for threads: updates have an order.

    Args:
        shard: The shard's index, for messages.
        grads_to_wait: Pushes of one update.
        books: Where they are entered.
        log: Where they are written down before.
    """

    def __init__(
        self, shard: int, grads_to_wait: int, books: Books, log: ShardLog
    ) -> None:
        self._shard = shard
        self._log = log
        self._at_once = grads_to_wait == 1
        self._books = books
        self._failure: BaseException | None = None
        self.buffer = GradientBuffer(grads_to_wait)

    @property
    def failure(self) -> BaseException | None:
        """What broke an update."""
        return self._failure

    def take(
        self, parameters: Parameters, push: Push, judgement: Judgement
    ) -> None:
        """Applies or buffers a push, and enters it.

        Args:
            parameters: What it changes.
            push: The push, with gradients.
            judgement: What to make of them.
        """
        gradients = push.gradients
        if gradients is None:
            raise AssertionError("A push without gradients was judged.")
        factor, staleness = judgement.rate_factor, judgement.staleness
        with self._all_or_failure():
            # Before anybody can read it: what was seen is never lost.
            self._log.push(push, Outcome.APPLIED, judgement)
            if self._at_once:
                parameters.apply(gradients, factor)
                applied = [staleness]
            else:
                # The rate is the whole update's, so a stale push's factor
                # is put on its gradients.
                self.buffer.add(gradients, factor, staleness)
                full = self.buffer.is_full
                applied = self._empty_buffer(parameters) if full else []
            self._books.enter(push, parameters, applied)

    def flush(self, parameters: Parameters) -> None:
        """Applies what is buffered, if anything is."""
        with self._all_or_failure():
            if len(self.buffer) > 0:
                self._log.flush()
                applied = self._empty_buffer(parameters)
                self._books.enter(None, parameters, applied)

    def _empty_buffer(self, parameters: Parameters) -> list[int]:
        """Applies the buffer's mean; returns the staleness of its pushes."""
        parameters.apply(self.buffer.mean(), 1.0)
        staleness = self.buffer.staleness()
        self.buffer.clear()
        return staleness

    @contextlib.contextmanager
    def _all_or_failure(self) -> Iterator[None]:
        """After half an update no later answer could be right."""
        if self._failure is not None:
            raise RuntimeError(
                f"shard {self._shard} failed in the middle of an update"
            ) from self._failure
        try:
            yield
        except BaseException as error:
            self._failure = error
            raise
