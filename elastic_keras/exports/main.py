"""The process that exports: `python -m elastic_keras.exports.main CONFIG`.

CONFIG is a job's config as JSON; `restore_from` names a checked snapshot.
"""

import os
import signal
import sys
from types import FrameType

from elastic_keras.cluster.arguments import log_to_stderr
from elastic_keras.cluster.exits import run_main
from elastic_keras.cluster.lifeline import watch_parent
from elastic_keras.config import JobConfig
from elastic_keras.snapshots.snapshot import Snapshot
from elastic_keras.worker.log_noise import without_noise


def _main() -> None:
    log_to_stderr()
    # What is half written is removed on the way out.
    signal.signal(signal.SIGTERM, _leave)
    watch_parent()
    with without_noise():
        # They load TensorFlow.
        import keras
        import tensorflow as tf

        tf.config.list_physical_devices()
    tf.get_logger().setLevel("ERROR")
    keras.config.disable_traceback_filtering()
    from elastic_keras.exports.exporter import export

    config = JobConfig.from_json(sys.argv[1])
    export(Snapshot(config.snapshots.restore_from), config)


def _leave(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


if __name__ == "__main__":
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    run_main(_main)
