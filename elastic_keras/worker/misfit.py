"""Tells inputs that do not fit the model from errors in the user's code."""

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from elastic_keras.config import ConfigError
from elastic_keras.zoo.errors import has_users_frame


@contextlib.contextmanager
def misfit_explained(spec: Any) -> Iterator[None]:
    """Turns what Keras says about a batch that does not fit into ConfigError.

    While a model is built or traced, an exception without a frame of the
    user's code means that model, loss and batches do not fit together. One
    with such a frame is the user's own and passes as it is.

    Args:
        spec: The batches' spec, for the message.

    Raises:
        ConfigError: The parts do not fit together.
    """
    try:
        yield
    except (ConfigError, tf.errors.OpError):
        raise
    except Exception as error:
        if has_users_frame(error):
            raise
        raise ConfigError(
            "The model, the loss and what dataset_fn gives do not fit "
            f"together: {_plain(error)} Received: batches of {spec}"
        ) from error


def _plain(error: BaseException) -> str:
    """Returns the message without what Keras wraps around it."""
    text = re.sub(r"\x1b\[\d+m", "", str(error))
    parts = [
        " ".join(part.split())
        for part in text.split("\n\n")
        if not part.startswith(
            ("Exception encountered when", "Arguments received by")
        )
    ]
    return " ".join(part for part in parts if part) or repr(error)
