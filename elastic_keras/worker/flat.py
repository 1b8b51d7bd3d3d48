"""A list of variables as one flat float32 vector."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from elastic_keras.config import ConfigError


class FlatVariables:
    """Reads and writes Keras variables as one vector, row-major, in order.

    Args:
        variables: The Keras variables.
    """

    def __init__(self, variables: Sequence[Any]) -> None:
        self._variables = list(variables)
        self._shapes = [tuple(v.shape) for v in self._variables]
        self._sizes = [math.prod(shape) for shape in self._shapes]
        self.size = sum(self._sizes)
        self._assign: Any = None
        if self._variables:
            self._assign = tf.function(
                self.write_flat,
                input_signature=[tf.TensorSpec([self.size], tf.float32)],
                autograph=False,
            ).get_concrete_function()

    def assign(self, flat: Any) -> None:
        """Sets all variables from a float32 vector.

        Raises:
            ConfigError: It has another size.
        """
        if tuple(flat.shape) != (self.size,):
            raise ConfigError(
                f"The model has {self.size} values here. "
                f"Received: shape={tuple(flat.shape)}"
            )
        if self._assign is not None:
            self._assign(flat)

    def numpy(self) -> np.ndarray:
        """Returns the values of all variables."""
        parts = [
            np.asarray(variable.value, np.float32).reshape(-1)
            for variable in self._variables
        ]
        return np.concatenate([np.empty((0,), np.float32), *parts])

    def read(self) -> list[tf.Tensor]:
        """Returns the values as tensors, as they are at this point."""
        return [tf.identity(variable.value) for variable in self._variables]

    def write(self, values: list[tf.Tensor]) -> None:
        """Sets the variables to what `read` returned."""
        for variable, value in zip(self._variables, values, strict=True):
            variable.assign(value)

    def flat_difference(self, before: list[tf.Tensor]) -> tf.Tensor:
        """Returns the change of all variables since `before`, flat."""
        return self.flatten(
            [
                tf.cast(now, tf.float32) - tf.cast(then, tf.float32)
                for now, then in zip(self.read(), before, strict=True)
            ]
        )

    def flatten(self, tensors: list[tf.Tensor]) -> tf.Tensor:
        """Returns tensors of the variables' shapes as one float32 vector."""
        if not tensors:
            return tf.zeros([0], tf.float32)
        return tf.concat(
            [tf.reshape(tf.cast(t, tf.float32), [-1]) for t in tensors], 0
        )

    def write_flat(self, flat: tf.Tensor) -> None:
        """Sets all variables, in a graph; see `assign`."""
        for variable, shape, part in zip(
            self._variables,
            self._shapes,
            tf.split(flat, self._sizes) if self._sizes else [],
            strict=True,
        ):
            variable.assign(tf.cast(tf.reshape(part, shape), variable.dtype))
