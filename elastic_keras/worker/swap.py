"""Large Keras Embedding layers become PS tables, and come back."""

import logging
import re
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from elastic_keras.config import ConfigError
from elastic_keras.layers.context import active_context
from elastic_keras.layers.initializers import initializer_spec
from elastic_keras.worker.constraints import row_constraint_spec

logger = logging.getLogger(__name__)

_ROW_REGULARIZERS = (
    keras.regularizers.L1,
    keras.regularizers.L2,
    keras.regularizers.L1L2,
)


@keras.saving.register_keras_serializable(package="elastic_keras")
class TableEmbedding(keras.layers.Embedding):
    """A Keras Embedding whose rows live on the PS shards.

    `swap` turns a layer of the model into one in place, so that whatever
    holds the layer (a functional graph, a list, a nested or subclassed
    model) goes on holding it. It has no variable of its own.
    """

    # Set once the user's model reads the weights themselves.
    weights_were_read = False
    weights_were_released = False

    @property
    def embeddings(self) -> Any:
        self.weights_were_read = True
        if self.weights_were_released:
            raise ConfigError(
                "The rows of this embedding live on the PS shards: its "
                "weights cannot be read in the model. "
                f"Received: layer {self.name!r}"
            )
        if "_embeddings" not in self.__dict__:
            _build(self, keras.layers.Embedding.build)
        return self._embeddings

    def call(self, inputs: Any) -> Any:
        context = active_context()
        if context is None:
            raise ConfigError(
                "The rows of this embedding live on the PS shards: it can "
                f"only be called in a step. Received: layer {self.name!r}"
            )
        ids = tf.cast(inputs, tf.int64)
        if isinstance(ids, tf.RaggedTensor):
            rows = ids.with_flat_values(context.lookup(self, ids.flat_values))
        else:
            rows = context.lookup(self, ids)
        return tf.cast(rows, self.compute_dtype)

    def checked_ids(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns ids as Keras reads them: negative ones from the end.

        An id beyond either end is an error that `outside_input_dim` reads.
        """
        least, most = tf.reduce_min(ids), tf.reduce_max(ids)
        ids = tf.where(ids < 0, ids + self.input_dim, ids)
        fits = tf.debugging.Assert(
            tf.reduce_all((ids >= 0) & (ids < self.input_dim)),
            [
                f"The embedding {self.name} takes ids below "
                f"input_dim={self.input_dim}. Received: ids from, to",
                least,
                most,
            ],
        )
        with tf.control_dependencies([fits]):
            return tf.identity(ids)

    def save_own_variables(self, store: Any) -> None:
        raise ConfigError(
            "In a job the rows of this embedding live on the PS shards: its "
            "model cannot be saved there, by a callback for one. "
            f"Received: layer {self.name!r}"
        )

    def load_own_variables(self, store: Any) -> None:
        raise ConfigError(
            "The rows of this embedding live on the PS shards: weights cannot "
            f"be loaded into it. Received: layer {self.name!r}"
        )


_OUTSIDE = re.compile(
    r"\[The embedding (.*?) takes ids below input_dim=(\d+)\. "
    r"Received: ids from, to\] \[(-?\d+)\] \[(-?\d+)\]",
    re.DOTALL,
)


def outside_input_dim(error: BaseException) -> ConfigError | None:
    """Returns what `TableEmbedding.checked_ids` found, if it did.

    Args:
        error: What TensorFlow raised while batches were made.
    """
    found = _OUTSIDE.search(str(error))
    if not isinstance(error, tf.errors.OpError) or found is None:
        return None
    name, input_dim = found[1], int(found[2])
    least, most = int(found[3]), int(found[4])
    return ConfigError(
        f"The embedding {name} takes ids from 0 to {input_dim - 1}: make its "
        "input_dim larger, or use elastic_keras.layers.Embedding, which takes "
        f"any id. Received: id {most if most >= input_dim else least} in layer "
        f"{name!r} with input_dim={input_dim}"
    )


def swap(model: keras.Model, threshold_bytes: int) -> list[TableEmbedding]:
    """Swaps the Keras Embedding layers of at least `threshold_bytes`.

    The weights stay allocated until `release`, so that `undo` can put a
    layer back. A layer that must stay as it is, is named in the log.

    Args:
        model: A Keras model, built or not.
        threshold_bytes: Least size of a table.

    Returns:
        The layers that were swapped.
    """
    swapped = []
    for layer in model._flatten_layers():
        if not isinstance(layer, keras.layers.Embedding):
            continue
        if isinstance(layer, TableEmbedding):
            continue
        if layer.input_dim * layer.output_dim * 4 < threshold_bytes:
            continue
        reason = _reason_to_stay(layer)
        if reason:
            _log_stays(layer, reason)
            continue
        _swap(layer)
        swapped.append(layer)
    return swapped


def undo(layer: TableEmbedding, reason: str) -> None:
    """Puts a swapped layer back before its weights were released."""
    _log_stays(layer, reason)
    _set_class(layer, keras.layers.Embedding)
    layer.built = "_embeddings" in layer.__dict__
    if not layer.built:
        _build(layer, keras.layers.Embedding.build)


def release(layer: TableEmbedding) -> None:
    """Frees the weights of a swapped layer."""
    if "_embeddings" in layer.__dict__:
        # `Layer.__delattr__` reads the attribute and untracks the variable.
        del layer._embeddings
    layer.weights_were_released = True


def restore(layer: TableEmbedding, rows: np.ndarray) -> None:
    """Turns a swapped layer into an ordinary Keras Embedding again.

    Args:
        layer: A layer that `swap` and `release` went through.
        rows: All its rows, float32, shape `(input_dim, output_dim)`.
    """
    _set_class(layer, keras.layers.Embedding)
    _build(layer, keras.layers.Embedding.build)
    layer.set_weights([rows])


def _build(layer: Any, build: Callable[[Any], None]) -> None:
    """Allocates the weights of a layer that counts as built."""
    layer.built = False
    layer._tracker.unlock()
    with layer._open_name_scope():
        build(layer)
    layer._tracker.lock()


def _swap(layer: Any) -> None:
    _set_class(layer, TableEmbedding)
    if not layer.built:
        # Building would allocate the weights.
        layer._path = layer.name
        layer.built = True


def _set_class(layer: Any, kind: type) -> None:
    # Both classes have the same layout; Keras's own attribute tracking has
    # nothing to do here.
    object.__setattr__(layer, "__class__", kind)


def _log_stays(layer: Any, reason: str) -> None:
    logger.info(
        "%s: this Embedding is not made a PS table: %s", layer.name, reason
    )


def _reason_to_stay(layer: Any) -> str:
    """Returns why a layer cannot become a table, or an empty string."""
    if type(layer) is not keras.layers.Embedding:
        return "it is a subclass of keras.layers.Embedding"
    if not layer.trainable:
        return "it is frozen"
    if layer.lora_rank or layer.lora_enabled:
        return "it uses LoRA"
    if layer.quantization_mode is not None:
        return "it is quantized"
    if layer.variable_dtype != "float32":
        return f"its weights are {layer.variable_dtype}, not float32"
    regularizer = layer.embeddings_regularizer
    if regularizer is not None and type(regularizer) not in _ROW_REGULARIZERS:
        return "its regularizer does not work row by row"
    try:
        initializer_spec(
            layer.embeddings_initializer, layer.output_dim, layer.input_dim
        )
        row_constraint_spec(layer.embeddings_constraint, layer.name)
    except ConfigError as error:
        return str(error)
    if layer.built and not _is_fresh(layer):
        return "its weights were loaded or set"
    return ""


def _is_fresh(layer: Any) -> bool:
    """Whether the weights are what the initializer gives.

    Keras's initializers draw the same values at every call, except from a
    SeedGenerator: then it cannot be told.
    """
    seed = getattr(layer.embeddings_initializer, "seed", 0)
    if not isinstance(seed, int):
        return False
    weights = layer.embeddings
    first = layer.embeddings_initializer(weights.shape, dtype=weights.dtype)
    return bool(tf.reduce_all(tf.equal(weights.value, first)))
