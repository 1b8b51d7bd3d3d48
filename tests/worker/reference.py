"""One step by elastic_keras beside the same step in plain Keras."""

from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from elastic_keras.worker.grouping import group
from elastic_keras.worker.lookup import Lookup
from elastic_keras.worker.model import prepare
from elastic_keras.worker.step import Steps


def dataset(element, batch_size=4):
    return tf.data.Dataset.from_tensor_slices(element).batch(batch_size)


class UniqueIds(NamedTuple):
    """A batch's ids: per table each once, and where every lookup's are."""

    unique: list[np.ndarray]
    inverse: list[tf.Tensor]


def unique_ids(ids):
    pairs = [group(table_ids.numpy(), 1) for table_ids in ids]
    return UniqueIds(
        [grouped.ids for grouped, _ in pairs],
        [tf.constant(inverse) for _, inverse in pairs],
    )


class JobSide:
    """A prepared model with its tables as arrays in this process.

    Args:
        model: The model for the job.
        batches: Dataset of batches.
        tables: Table name to the matrix of all its rows.
    """

    def __init__(
        self,
        model,
        batches,
        tables=None,
        *,
        loss=None,
        optimizer=None,
        metrics=None,
        threshold=1,
        mode="train",
    ):
        self.batches = batches
        self.prepared = prepare(
            model,
            loss or keras.losses.MeanSquaredError(),
            optimizer or keras.optimizers.SGD(),
            metrics,
            sample_batch=next(iter(batches)),
            seed=0,
            threshold_bytes=threshold,
        )
        self.tables = tables or {}
        self.steps = Steps(self.prepared)
        self.steps.expect(mode, batches.element_spec)
        self.lookup = Lookup(
            self.prepared, batches.element_spec, training=mode == "train"
        )

    def __iter__(self):
        """Gives (batch, UniqueIds, rows) of each batch."""
        for batch, ids in self.lookup.map(self.batches):
            found = unique_ids(ids)
            yield batch, found, self.rows(found)

    def rows(self, ids):
        return [
            self.tables[spec.name][unique]
            for spec, unique in zip(
                self.prepared.signature.tables, ids.unique, strict=True
            )
        ]

    def train(self, batch, ids, rows):
        """Returns (StepResult, table name to gradient of all rows)."""
        result = self.steps.train(batch, rows, ids.inverse)
        gradients = {}
        for spec, unique, gradient in zip(
            self.prepared.signature.tables,
            ids.unique,
            result.row_gradients,
            strict=True,
        ):
            full = np.zeros_like(self.tables[spec.name])
            full[unique] = gradient.numpy()
            gradients[spec.name] = full
        return result, gradients


def matrices(model):
    """Returns the weights of a plain model's Embedding layers by name."""
    return {
        layer.name: np.array(layer.get_weights()[0])
        for layer in model._flatten_layers()
        if type(layer) is keras.layers.Embedding and layer.get_weights()
    }


def plain_step(model, loss, batch):
    """Returns what Keras computes for a batch in a training step.

    Returns:
        The loss, gradients of Embedding weights by layer name, all other
        gradients as one flat vector, and the change of float state.
    """
    x, y, weights = keras.utils.unpack_x_y_sample_weight(batch)
    embeddings = {
        id(layer.embeddings): layer.name
        for layer in model._flatten_layers()
        if type(layer) is keras.layers.Embedding
    }
    states = [
        v for v in model.non_trainable_variables if "float" in str(v.dtype)
    ]
    before = [np.array(v.value) for v in states]
    variables = model.trainable_variables
    with tf.GradientTape() as tape:
        value = loss(y, model(x, training=True), weights)
        value += sum(model.losses) if model.losses else 0.0
    gradients = [
        tf.zeros(v.shape) if g is None else tf.convert_to_tensor(g)
        for v, g in zip(
            variables,
            tape.gradient(value, [v.value for v in variables]),
            strict=True,
        )
    ]
    tables = {
        embeddings[id(v)]: g.numpy()
        for v, g in zip(variables, gradients, strict=True)
        if id(v) in embeddings
    }
    flat = [
        g.numpy().ravel()
        for v, g in zip(variables, gradients, strict=True)
        if id(v) not in embeddings
    ]
    deltas = [
        (np.array(v.value) - old).ravel()
        for v, old in zip(states, before, strict=True)
    ]
    return (
        float(value),
        tables,
        np.concatenate([np.empty(0, np.float32), *flat]),
        np.concatenate([np.empty(0, np.float32), *deltas]),
    )
