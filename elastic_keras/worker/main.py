"""A worker's process: `python -m elastic_keras.worker.main`."""

import logging
import os
import signal
import sys
import threading

from elastic_keras.cluster.arguments import (
    log_to_stderr,
    read_arguments,
    read_config,
)
from elastic_keras.cluster.exits import CRASH, end_now, run_main
from elastic_keras.cluster.lifeline import watch_parent
from elastic_keras.config import JobConfig
from elastic_keras.wire.errors import RpcError
from elastic_keras.worker.log_noise import without_noise

_LOGGER = logging.getLogger("elastic_keras.worker")
# Time that a worker which is told to end takes to say goodbye.
_GOODBYE_SECONDS = 2.0


def set_up_tensorflow(config: JobConfig) -> None:
    """Makes settings that belong before or right after the import.

    Args:
        config: The job.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    with without_noise():
        import keras
        import tensorflow as tf

        # Looks for GPUs here, where not finding one is not logged.
        tf.config.list_physical_devices()
    tf.get_logger().setLevel("ERROR")
    # An exception in a user's layer keeps its own traceback.
    keras.config.disable_traceback_filtering()
    cores = os.cpu_count() or 1
    share = max(1, cores // config.cluster.num_workers)
    tf.config.threading.set_intra_op_parallelism_threads(share)
    tf.config.threading.set_inter_op_parallelism_threads(max(2, share))


def _main() -> None:
    log_to_stderr()
    # Before any thread starts: all of them inherit the mask.
    signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    arguments = read_arguments("worker")
    config = read_config(arguments.job_dir)
    watch_parent()
    goodbye = _Goodbye(signals)
    set_up_tensorflow(config)
    from elastic_keras.worker.loop import Worker

    worker = Worker(
        config,
        arguments.index,
        arguments.job_dir,
        os.environ.get("EK_JOB_TOKEN", ""),
    )
    goodbye.worker = worker
    try:
        worker.run()
    except RpcError as error:
        # The calls were repeated for minutes: a stack would say no more.
        _LOGGER.error("Gave up: %s", error)
        sys.exit(CRASH)
    _LOGGER.info("The job is over")


class _Goodbye:
    """Waits for a signal in a thread: the main thread may be in a kernel."""

    def __init__(self, signals: set[signal.Signals]) -> None:
        self.worker: object | None = None
        self._signals = signals
        threading.Thread(target=self._wait, name="goodbye", daemon=True).start()

    def _wait(self) -> None:
        signal.sigwait(self._signals)
        leave = getattr(self.worker, "leave", None)
        if leave is not None:
            leave(_GOODBYE_SECONDS)
        end_now()


if __name__ == "__main__":
    run_main(_main)
