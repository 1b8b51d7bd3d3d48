"""Starts TensorFlow in a process whose words a person reads."""

import os
import shutil
import sys
import tempfile

from elastic_keras.config import JobConfig

_STDERR = 2


def start_tensorflow(config: JobConfig) -> None:
    """Imports TensorFlow with a worker's settings and without its chatter.

    A worker takes the chatter out of its log, a file. Here stderr may be a
    terminal: it is such a file for the time being, and the rest is shown
    afterwards.

    Args:
        config: The job.
    """
    from elastic_keras.worker.main import set_up_tensorflow

    sys.stderr.flush()
    shown = os.dup(_STDERR)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), _STDERR)
        try:
            set_up_tensorflow(config)
        finally:
            sys.stderr.flush()
            os.dup2(shown, _STDERR)
            os.close(shown)
            file.seek(0)
            with os.fdopen(os.dup(_STDERR), "wb") as rest:
                shutil.copyfileobj(file, rest)
