"""What the master is told about an exception."""

from typing import Any

import tensorflow as tf

from elastic_keras.config import ConfigError
from elastic_keras.zoo.errors import user_traceback


def failure(error: BaseException, *, first_step: bool) -> dict[str, Any]:
    """Returns the fields of a report about a failed task.

    Args:
        error: What the user's code, or what runs it, raised.
        first_step: No step has succeeded in this process. What Python raises
            then is raised while the model is traced: every other try would
            end the same way.
    """
    if isinstance(error, ConfigError):
        return {"error": str(error), "fatal": True, "exit_code": 2}
    text = user_traceback(error)
    traced = first_step and not isinstance(error, tf.errors.OpError)
    return {"error": text, "fatal": traced, "exit_code": 1}
