"""An embedding without a vocabulary size."""

import warnings
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from elastic_keras.config import ConfigError
from elastic_keras.layers.combine import (
    COMBINERS,
    look_up_bags,
    look_up_each,
)
from elastic_keras.layers.context import active_context
from elastic_keras.layers.initializers import initializer_spec
from elastic_keras.layers.local_rows import LocalRows


@keras.saving.register_keras_serializable(package="elastic_keras")
class Embedding(keras.layers.Layer):
    """Turns int64 ids into rows of a table on the PS shards.

    There is no vocabulary size: any int64 is an id, and a row exists once a
    gradient for it was applied. In a job, rows come from the shards and are
    trained there. Outside a job the layer works in plain Keras (call,
    predict, save, load) on rows of its own: those loaded with a model, and
    initial values for every other id. They do not train there; a call with
    `training=True` warns once.

    Args:
        output_dim: Width of a row.
        embeddings_initializer: Distribution of a row's first value: a Keras
            initializer that can be computed row by row. Variance scaling
            takes the fans of the shape `(1, output_dim)`.
        combiner: `None` gives one row per id. `"sum"`, `"mean"` or `"sqrtn"`
            reduce the last axis of the ids to one vector.
        mask_zero: Whether id 0 is padding. Without a combiner the output
            carries a Keras mask; with one, id 0 is left out of the bag.
        optimizer: Optimizer of this table, or `None` for the model's.
        embeddings_regularizer: Regularizer of the rows that a batch uses,
            each row once; other rows are not touched.
        embeddings_constraint: Constraint of a row, kept after each update.
            Norms must be taken along axis 1, the row.
        activity_regularizer: Regularizer of the output.
        **kwargs: `name`, `dtype` and the like.

    Call arguments:
        ids: Integer tensor: dense or ragged of any rank; sparse only with a
            combiner.
        weights: With a combiner: weights of the ids, of the same kind and
            shape.

    Example:
        Any int64 is an id, and equal ids have equal rows:

        >>> import numpy as np, elastic_keras as ek
        >>> users = ek.layers.Embedding(4)
        >>> rows = users(np.array([17, -3, 17])).numpy()
        >>> rows.shape, bool((rows[0] == rows[2]).all())
        ((3, 4), True)

        A combiner makes one vector of a bag, here without the padding:

        >>> tags = ek.layers.Embedding(4, combiner="mean", mask_zero=True)
        >>> tags(np.array([[5, 9, 0], [7, 0, 0]])).shape
        TensorShape([2, 4])
    """

    def __init__(
        self,
        output_dim: int,
        embeddings_initializer: Any = "uniform",
        combiner: str | None = None,
        mask_zero: bool = False,
        optimizer: Any = None,
        embeddings_regularizer: Any = None,
        embeddings_constraint: Any = None,
        activity_regularizer: Any = None,
        **kwargs: Any,
    ) -> None:
        if type(output_dim) is not int or output_dim <= 0:
            raise ConfigError(
                "An embedding's output_dim is a positive int. "
                f"Received: output_dim={output_dim!r}"
            )
        if combiner is not None and combiner not in COMBINERS:
            raise ConfigError(
                f"A combiner is None or one of {', '.join(COMBINERS)}. "
                f"Received: combiner={combiner!r}"
            )
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        # Ids must not be rounded to the compute dtype.
        self.autocast = False
        self.output_dim = output_dim
        self.embeddings_initializer = keras.initializers.get(
            embeddings_initializer
        )
        self.combiner = combiner
        self.mask_zero = bool(mask_zero)
        self.supports_masking = self.mask_zero
        self.optimizer = (
            None if optimizer is None else keras.optimizers.get(optimizer)
        )
        self.embeddings_regularizer = keras.regularizers.get(
            embeddings_regularizer
        )
        self.embeddings_constraint = keras.constraints.get(
            embeddings_constraint
        )
        self._warned = False
        self._in_job = False
        self._local = LocalRows(
            initializer_spec(self.embeddings_initializer, output_dim),
            output_dim,
            seed=_seed(self.embeddings_initializer),
        )

    def build(self, input_shape: Any = None) -> None:
        self.built = True

    def call(
        self, ids: Any, weights: Any = None, training: bool | None = None
    ) -> Any:
        ids = self._checked(ids, weights)
        if training and active_context() is None:
            self._warn_untrained()
        if self.combiner is None:
            rows = look_up_each(ids, self._rows)
        else:
            rows = look_up_bags(
                ids, self._rows, self.combiner, weights, self.mask_zero
            )
        return tf.cast(rows, self.compute_dtype)

    def _checked(self, ids: Any, weights: Any) -> Any:
        if not tf.is_tensor(ids):
            ids = tf.convert_to_tensor(ids)
        if not (ids.dtype.is_integer or ids.dtype.is_floating):
            raise ConfigError(
                f"Layer {self.name!r} takes integer ids; make them with a "
                "StringLookup or Hashing layer. "
                f"Received: ids.dtype={ids.dtype.name}"
            )
        if self.combiner is None and isinstance(ids, tf.SparseTensor):
            raise ConfigError(
                f"Layer {self.name!r} needs a combiner for sparse ids. "
                f"Received: ids of shape {ids.shape}"
            )
        if self.combiner is None and weights is not None:
            raise ConfigError(
                f"Layer {self.name!r} takes weights only with a combiner. "
                "Received: combiner=None"
            )
        if self.combiner is not None and ids.shape.rank == 0:
            raise ConfigError(
                f"Layer {self.name!r} reduces the last axis of its ids. "
                f"Received: ids of shape {ids.shape}"
            )
        return tf.cast(ids, tf.int64)

    def _rows(self, ids: tf.Tensor) -> tf.Tensor:
        context = active_context()
        if context is not None:
            return context.lookup(self, ids)
        if self._in_job:
            raise ConfigError(
                "In a job the rows of this embedding live on the PS shards: "
                "it can only be called in a step. "
                f"Received: layer {self.name!r}"
            )
        if tf.executing_eagerly():
            return tf.convert_to_tensor(self._local.pull(ids.numpy()))
        rows = tf.numpy_function(
            self._local.pull, [ids], tf.float32, stateful=False
        )
        rows.set_shape(ids.shape.concatenate([self.output_dim]))
        return rows

    def _warn_untrained(self) -> None:
        if self._warned:
            return
        self._warned = True
        warnings.warn(
            f"Layer {self.name!r}: rows train in an elastic_keras job only; "
            "in plain Keras they keep their values.",
            stacklevel=2,
        )

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        if not self.mask_zero or self.combiner is not None:
            return None
        if isinstance(inputs, tf.RaggedTensor):
            return None
        return keras.ops.not_equal(inputs, 0)

    def compute_output_shape(
        self, input_shape: Any, weights_shape: Any = None
    ) -> tuple[int | None, ...]:
        kept = input_shape if self.combiner is None else input_shape[:-1]
        return (*kept, self.output_dim)

    def compute_output_spec(
        self, ids: Any, weights: Any = None, training: bool | None = None
    ) -> keras.KerasTensor:
        shape = self.compute_output_shape(ids.shape)
        # A ragged KerasTensor is known to Keras from 3.9 on.
        if self.combiner is None and getattr(ids, "ragged", False):
            return keras.KerasTensor(
                shape, dtype=self.compute_dtype, ragged=True
            )
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def join_job(self) -> None:
        """Leaves the rows to the PS shards, until `assign_rows`."""
        self._in_job = True

    def assign_rows(
        self,
        ids: np.ndarray,
        rows: np.ndarray,
        *,
        seed: int,
        table_index: int,
    ) -> None:
        """Takes over a table's rows, for use outside a job.

        Args:
            ids: Unique int64 ids, shape `(n,)`.
            rows: Their rows, float32, shape `(n, output_dim)`.
            seed: The job's seed, for initial values of other ids.
            table_index: The table's position in the job's signature.
        """
        self._local.assign(ids, rows)
        self._local.seed = seed
        self._local.table_index = table_index
        self._in_job = False

    def save_own_variables(self, store: Any) -> None:
        if self._in_job:
            # A file without them would look like the trained model.
            raise ConfigError(
                "In a job the rows of this embedding live on the PS shards: "
                "its model cannot be saved there, by a callback for one. "
                f"Received: layer {self.name!r}"
            )
        store["ids"] = self._local.ids
        store["rows"] = self._local.rows
        store["seed"] = np.array(
            [self._local.seed, self._local.table_index], np.int64
        )

    def load_own_variables(self, store: Any) -> None:
        seed, table_index = np.asarray(store["seed"])
        self.assign_rows(
            np.asarray(store["ids"]),
            np.asarray(store["rows"]),
            seed=int(seed),
            table_index=int(table_index),
        )

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "output_dim": self.output_dim,
            "embeddings_initializer": keras.initializers.serialize(
                self.embeddings_initializer
            ),
            "combiner": self.combiner,
            "mask_zero": self.mask_zero,
            "optimizer": None
            if self.optimizer is None
            else keras.optimizers.serialize(self.optimizer),
            "embeddings_regularizer": keras.regularizers.serialize(
                self.embeddings_regularizer
            ),
            "embeddings_constraint": keras.constraints.serialize(
                self.embeddings_constraint
            ),
            "activity_regularizer": keras.regularizers.serialize(
                self.activity_regularizer
            ),
        }


def _seed(initializer: Any) -> int:
    seed = getattr(initializer, "seed", None)
    return seed if isinstance(seed, int) else 0
