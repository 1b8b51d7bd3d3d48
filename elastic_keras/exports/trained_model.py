"""The Keras model of a snapshot, with its trained dense parameters."""

import dataclasses
from typing import Any

import keras
import tensorflow as tf

from elastic_keras.config import ConfigError, JobConfig
from elastic_keras.signature import ModelSignature
from elastic_keras.snapshots.snapshot import Snapshot
from elastic_keras.wire.handshake import difference
from elastic_keras.worker.failures import at_the_start
from elastic_keras.worker.features import read_features
from elastic_keras.worker.flat import FlatVariables
from elastic_keras.worker.model import PreparedModel, prepare
from elastic_keras.zoo.module import load


@dataclasses.dataclass(frozen=True)
class TrainedModel:
    """A trained model whose tables are still in the snapshot.

    Args:
        prepared: The model, built; its dense parameters are set.
        features: Nested specs of what it is called on.
        snapshot: The snapshot.
    """

    prepared: PreparedModel
    features: Any
    snapshot: Snapshot

    @property
    def signature(self) -> ModelSignature:
        """The model as the shards knew it."""
        return self.snapshot.signature


def restore(snapshot: Snapshot, config: JobConfig) -> TrainedModel:
    """Makes the model anew, without any data.

    Args:
        snapshot: The snapshot.
        config: Where the module is, and the arguments of its model.

    Raises:
        ConfigError: The module gives another model now.
        UserCodeError: Its own code raised.
    """
    keras.utils.set_random_seed(config.model.seed)
    model = load(config.model, training=False).custom_model()
    signature = snapshot.signature
    try:
        features = _features(signature, model)
        prepared = prepare(
            model,
            None,
            None,
            None,
            sample_batch=(tf.nest.map_structure(_example, features),),
            seed=signature.seed,
            threshold_bytes=config.model.embedding_threshold_bytes,
            features_spec=features,
        )
    except Exception as error:
        raise at_the_start(error) from error
    mine, trained = prepared.signature.for_reading(), signature.for_reading()
    if mine != trained:
        raise ConfigError(
            "The module makes another model than the one that was trained: "
            + difference(trained.to_json(), mine.to_json())
        )
    dense = snapshot.dense()
    FlatVariables(prepared.dense).assign(dense.values)
    FlatVariables(prepared.states).assign(dense.states)
    return TrainedModel(prepared, features, snapshot)


def _features(signature: ModelSignature, model: keras.Model) -> Any:
    if signature.features:
        return read_features(signature.features)
    inputs = getattr(model, "input", None)
    if inputs is None:
        raise ConfigError(
            "The snapshot does not tell what its model is called on: let "
            "dataset_fn give features as a tensor, a dict, a list or a tuple "
            f"of them. Received: {type(model).__name__}"
        )
    return keras.tree.map_structure(_spec, inputs)


def _spec(tensor: Any) -> Any:
    shape = [None, *tensor.shape[1:]]
    if getattr(tensor, "sparse", False):
        return tf.SparseTensorSpec(shape, tensor.dtype)
    if getattr(tensor, "ragged", False):
        return tf.RaggedTensorSpec(shape, tensor.dtype)
    return tf.TensorSpec(shape, tensor.dtype)


def _example(spec: Any) -> Any:
    """Returns one example of a feature: zeros, or empty texts."""
    shape = [1 if length is None else length for length in spec.shape]
    dense = tf.fill(shape, "" if spec.dtype == tf.string else 0)
    dense = dense if spec.dtype == tf.string else tf.cast(dense, spec.dtype)
    if isinstance(spec, tf.SparseTensorSpec):
        return tf.sparse.from_dense(dense)
    if isinstance(spec, tf.RaggedTensorSpec):
        return tf.RaggedTensor.from_tensor(
            dense,
            ragged_rank=spec.ragged_rank,
            row_splits_dtype=spec.row_splits_dtype,
        )
    return dense
