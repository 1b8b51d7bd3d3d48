"""Loss scaling for half-precision gradients, as in Keras."""

import tensorflow as tf

from elastic_keras.worker.optimizers import LossScale


class LossScaling:
    """Scales the loss and unscales gradients inside the compiled step.

    Args:
        spec: How, or `None` for no scaling.
    """

    def __init__(self, spec: LossScale | None) -> None:
        self._spec = spec
        self._growth_steps = None if spec is None else spec.growth_steps
        initial = 1.0 if spec is None else spec.initial
        self._scale = tf.Variable(initial, trainable=False, dtype=tf.float32)
        # Finite steps since the scale last changed.
        self._steps = tf.Variable(0, trainable=False, dtype=tf.int64)

    def scale(self, loss: tf.Tensor) -> tf.Tensor:
        """Returns the loss to differentiate."""
        return loss if self._spec is None else loss * self._scale

    def unscale(self, gradient: tf.Tensor) -> tf.Tensor:
        """Returns the gradient of the loss itself, in float32."""
        gradient = tf.cast(gradient, tf.float32)
        return gradient if self._spec is None else gradient / self._scale

    def count(self, finite: tf.Tensor) -> None:
        """Grows a dynamic scale after enough finite steps; in a graph."""
        if self._growth_steps is None:
            return
        grows = finite & (self._steps >= self._growth_steps - 1)
        self._scale.assign(tf.where(grows, self._scale * 2.0, self._scale))
        self._steps.assign(
            tf.where(grows | ~finite, tf.zeros([], tf.int64), self._steps + 1)
        )

    def reduce(self) -> bool:
        """Halves a dynamic scale; `False` where it is no cause of overflow."""
        if self._growth_steps is None or self._scale.numpy() <= 1.0:
            return False
        self._scale.assign(self._scale / 2.0)
        return True
