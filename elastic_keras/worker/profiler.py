"""TensorFlow's profiler around some steps."""

import logging

import tensorflow as tf

from elastic_keras.worker.values import Pulled, StepGradients

_LOGGER = logging.getLogger(__name__)


class StepProfiler:
    """Profiles the process from one of its steps to another.

    Where a profile cannot be made, training goes on and the log says why.

    Args:
        folder: Folder of the TensorBoard run.
        first: First step to profile; a worker's steps count from 1.
        last: Last step to profile.
    """

    def __init__(self, folder: str, first: int, last: int) -> None:
        self._folder = folder
        self._first = first
        self._last = last
        self._step = 0
        self._running = False
        self._trace: tf.profiler.experimental.Trace | None = None

    def begin(self) -> None:
        """See `StepObserver.begin`."""
        self._step += 1
        if self._step == self._first:
            self._start()
        if self._running:
            # By these the profile tells steps apart.
            self._trace = tf.profiler.experimental.Trace(
                "train", step_num=self._step, _r=1
            )
            self._trace.__enter__()

    def end(self, pulled: Pulled, gradients: StepGradients) -> None:
        """See `StepObserver.end`."""
        self._end_trace()
        if self._step == self._last:
            self._stop()

    def close(self) -> None:
        """See `StepObserver.close`: the job may end before the last step."""
        self._end_trace()
        self._stop()

    def _start(self) -> None:
        try:
            tf.profiler.experimental.start(self._folder)
        except tf.errors.OpError as error:
            _LOGGER.warning("No profile is made: %s", error)
            return
        self._running = True

    def _end_trace(self) -> None:
        if self._trace is not None:
            self._trace.__exit__(None, None, None)
            self._trace = None

    def _stop(self) -> None:
        if not self._running:
            return
        self._running = False
        try:
            tf.profiler.experimental.stop()
        except tf.errors.OpError as error:
            _LOGGER.warning("The profile is lost: %s", error)
            return
        _LOGGER.info(
            "Profiled steps %d to %d: %s", self._first, self._step, self._folder
        )
