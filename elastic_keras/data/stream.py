"""One tf.data iterator for the batches of all tasks."""

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf


class BatchStream:
    """Makes the batches of one task after another with one iterator.

    To start a tf.data iterator costs some 50 ms, as much as many batches: the
    graph is optimized and its functions are instantiated each time. So there
    is one iterator, which takes datasets of raw records from a queue. The end
    of a task's batches is marked by an empty `Optional`.

    Args:
        function: From a dataset of raw records to one of batches; a traced
            function.
        raw_spec: Element spec of the raw records.
        batch_spec: Element spec of the batches.
        prefetch: Batches made ahead.
    """

    def __init__(
        self,
        function: Callable[[tf.data.Dataset], tf.data.Dataset],
        raw_spec: Any,
        batch_spec: Any,
        prefetch: int,
    ) -> None:
        self._function = function
        self._raw_spec = raw_spec
        self._batch_spec = batch_spec
        self._prefetch = prefetch
        self._idle: tuple[tf.queue.FIFOQueue, Any] | None = None
        self._close: Callable[[], Any] = lambda: None
        self._busy = False

    @property
    def busy(self) -> bool:
        """Whether a task's batches are being made."""
        return self._busy

    def batches(self, raw: tf.data.Dataset) -> Iterator[Any]:
        """Makes a task's batches; one task at a time.

        Args:
            raw: The task's records.
        """
        self._busy = True
        queue, iterator = self._idle or self._start()
        self._idle = None
        try:
            queue.enqueue(tf.data.experimental.to_variant(raw))
            batch = next(iterator)
            while batch.has_value():
                yield batch.get_value()
                batch = next(iterator)
            # An iterator within a task, or one that failed, is dropped.
            self._idle = queue, iterator
        finally:
            self._busy = False
            if self._idle is None:
                self._close()

    def _start(self) -> tuple[tf.queue.FIFOQueue, Any]:
        queue = tf.queue.FIFOQueue(1, [tf.variant], [[]])
        # An iterator waits for the next task in a thread of its own. It must
        # have stopped when the queue goes, or TensorFlow crashes.
        self._close = weakref.finalize(self, _close, queue)

        def task(variant: tf.Tensor) -> tf.data.Dataset:
            raw = tf.data.experimental.from_variant(variant, self._raw_spec)
            end = tf.data.Dataset.from_tensors(0).map(
                lambda _: tf.experimental.Optional.empty(self._batch_spec)
            )
            return self._function(raw).map(_optional).concatenate(end)

        tasks = tf.data.Dataset.range(2**62).map(lambda _: queue.dequeue())
        options = tf.data.Options()
        options.deterministic = True
        batches = tasks.flat_map(task).prefetch(self._prefetch)
        return queue, iter(batches.with_options(options))


def _close(queue: tf.queue.FIFOQueue) -> None:
    # The garbage collector may call this in the middle of a trace.
    with tf.init_scope():
        queue.close()


def _optional(*batch: Any) -> tf.experimental.Optional:
    element = batch if len(batch) > 1 else batch[0]
    return tf.experimental.Optional.from_value(element)
