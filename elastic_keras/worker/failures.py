"""What becomes of an exception that the user's code or input raised."""

import re
from typing import Any

import tensorflow as tf

from elastic_keras.config import ConfigError
from elastic_keras.wire.errors import RpcError
from elastic_keras.worker.swap import outside_input_dim
from elastic_keras.zoo.errors import (
    UserCodeError,
    defined_by_user,
    has_users_frame,
    user_traceback,
)


def failure(
    error: BaseException, *, first_step: bool, spec: Any = None
) -> dict[str, Any]:
    """Returns the fields of a report about a failed task.

    Args:
        error: What the user's code, or what runs it, raised.
        first_step: No step has succeeded in this process. What Python raises
            then is raised while the model is traced: every other try would
            end the same way.
        spec: Spec of the batches, for the message.
    """
    error = outside_input_dim(error) or _outside_a_layer(error) or error
    if first_step and not isinstance(error, tf.errors.OpError):
        final = at_the_start(error, spec)
        if isinstance(final, ConfigError):
            return {"error": str(final), "fatal": True, "exit_code": 2}
        return {
            "error": user_traceback(final),
            "fatal": True,
            "exit_code": 1,
        }
    if isinstance(error, ConfigError):
        return {"error": str(error), "fatal": True, "exit_code": 2}
    return {"error": user_traceback(error), "fatal": False, "exit_code": 1}


_NO_SUCH_ROW = re.compile(
    r"indices\[[\d,]+\] = (-?\d+) is not in \[0, (\d+)\)"
    r".*?\{\{node ([^}]+)\}\}",
    re.DOTALL,
)


def _outside_a_layer(error: BaseException) -> ConfigError | None:
    """Returns what is wrong where a layer of Keras has no such row.

    Args:
        error: What the compiled step raised.
    """
    found = _NO_SUCH_ROW.search(str(error))
    if not isinstance(error, tf.errors.OpError) or found is None:
        return None
    if has_users_frame(error) or defined_by_user(error):
        return None
    most = int(found[2]) - 1
    return ConfigError(
        f"A layer of the model takes ids from 0 to {most}: make its input_dim "
        "larger, or use elastic_keras.layers.Embedding, which takes any id. "
        f"Received: id {found[1]} at {found[3]}"
    )


def at_the_start(
    error: BaseException, spec: Any = None
) -> ConfigError | UserCodeError:
    """Returns what an exception means that came before the first step.

    With a frame of the user's code it is theirs. Without one, Keras or
    TensorFlow could not put together what the user gave them.

    Args:
        error: The exception, other than an `RpcError`.
        spec: Spec of the batches, for the message.
    """
    if isinstance(error, ConfigError | UserCodeError):
        return error
    if isinstance(error, RpcError):
        raise error
    if has_users_frame(error):
        return UserCodeError("the model", error)
    text = " ".join(str(error).split())
    received = "" if spec is None else f" Received: batches of {spec}"
    return ConfigError(
        "The model, the loss, the metrics and what dataset_fn gives do not "
        f"fit together: {type(error).__name__}: {text}.{received}"
    )
