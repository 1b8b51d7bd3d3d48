"""What a module does that works, and that its user will regret."""

import inspect
import math
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from elastic_keras.checking.parts import bounds, named_parts
from elastic_keras.checking.trial import Trial
from elastic_keras.worker.batches import unpack
from elastic_keras.worker.swap import TableEmbedding
from elastic_keras.worker.unconnected import unconnected
from elastic_keras.zoo.errors import is_users

# Fewer ids may well be the same by chance.
_LEAST_IDS = 8


def regrets(trial: Trial) -> list[str]:
    """Returns a warning for each thing that is hardly meant so.

    Args:
        trial: A module whose steps have run.
    """
    return [
        *_metrics(trial),
        *_left_in_place(trial),
        *_shapes(trial),
        *_probabilities(trial),
        *_binary_labels(trial),
        *_unused(trial),
        *_same_ids(trial),
    ]


def _metrics(trial: Trial) -> Iterator[str]:
    if not trial.zoo.eval_metrics_fn():
        yield (
            "Without eval_metrics_fn an evaluation shows the loss alone. "
            "Received: no metrics"
        )
    for name, value in trial.values.items():
        if not math.isfinite(value):
            yield (
                f"A metric of the first batch is not a finite number. "
                f"Received: {name}={value}"
            )


def _left_in_place(trial: Trial) -> Iterator[str]:
    threshold = trial.config.model.embedding_threshold_bytes
    for layer in trial.prepared.model._flatten_layers():
        if not isinstance(layer, keras.layers.Embedding):
            continue
        size = layer.input_dim * layer.output_dim * 4
        if isinstance(layer, TableEmbedding) or size < threshold:
            continue
        reason = trial.reasons.get(layer.name, "it cannot be one")
        yield (
            "A large Embedding of Keras is no PS table: each step moves all "
            f"of it, {size >> 20} MiB. Received: layer {layer.name!r}; "
            f"{reason}"
        )


def _shapes(trial: Trial) -> Iterator[str]:
    """Finds labels that broadcast in a loss that is a user's function."""
    labels, predictions = unpack(trial.sample).labels, trial.predictions
    if not _is_own_function(trial.zoo.loss):
        # Losses of Keras bring both to one shape.
        return
    if not (tf.is_tensor(labels) and tf.is_tensor(predictions)):
        return
    shapes = [list(labels.shape[1:]), list(predictions.shape[1:])]
    if sorted(shapes) == [[], [1]]:
        yield (
            "In a loss of your own, shapes (batch,) and (batch, 1) broadcast "
            "to (batch, batch): give labels the shape of the predictions. "
            f"Received: labels of shape {tuple(labels.shape)}, predictions "
            f"of shape {tuple(predictions.shape)}"
        )


def _is_own_function(loss: Any) -> bool:
    return inspect.isfunction(loss) and is_users(loss.__code__.co_filename)


def _probabilities(trial: Trial) -> Iterator[str]:
    """Finds logits taken for probabilities, and the other way round."""
    loss, predictions = trial.zoo.loss, trial.predictions
    if not isinstance(loss, keras.losses.BinaryCrossentropy):
        return
    if not tf.is_tensor(predictions):
        return
    activation = _last_activation(trial.prepared.model)
    least, most = float(np.min(predictions)), float(np.max(predictions))
    if loss.from_logits and activation == "sigmoid":
        yield (
            "BinaryCrossentropy(from_logits=True) takes no probabilities: "
            "leave the last sigmoid out, or from_logits. "
            f"Received: predictions from {least:.4g} to {most:.4g}"
        )
    elif not loss.from_logits and (
        activation == "linear" or least < 0.0 or most > 1.0
    ):
        yield (
            "BinaryCrossentropy takes probabilities: end the model in a "
            "sigmoid, or say from_logits=True. "
            f"Received: predictions from {least:.4g} to {most:.4g}"
        )


def _binary_labels(trial: Trial) -> Iterator[str]:
    """Finds labels that are no probabilities: the wrong column."""
    losses = dict(named_parts(trial.zoo.loss, ""))
    for path, labels in named_parts(unpack(trial.sample).labels, ""):
        # One loss may be for all outputs.
        if not _is_binary(losses.get(path, losses.get(""))):
            continue
        span = bounds(labels)
        if span is not None and not 0.0 <= span[0] <= span[1] <= 1.0:
            yield (
                "Labels of a binary cross-entropy lie from 0 to 1: does "
                "dataset_fn take the right column for them? Received: "
                f"labels{path} from {span[0]:.6g} to {span[1]:.6g}"
            )


def _is_binary(loss: Any) -> bool:
    return loss is keras.losses.binary_crossentropy or isinstance(
        loss,
        (
            keras.losses.BinaryCrossentropy,
            keras.losses.BinaryFocalCrossentropy,
        ),
    )


def _last_activation(model: keras.Model) -> str:
    """Returns the activation of a functional model's only output, if known."""
    outputs = getattr(model, "outputs", None) or []
    if len(outputs) != 1:
        return ""
    history = getattr(outputs[0], "_keras_history", None)
    activation = getattr(
        getattr(history, "operation", None), "activation", None
    )
    return getattr(activation, "__name__", "")


def _unused(trial: Trial) -> Iterator[str]:
    prepared = trial.prepared
    found = unconnected(prepared.model, prepared.loss, trial.sample)
    names = [prepared.signature.dense[i].name for i in sorted(found)]
    if names:
        yield (
            "The loss does not depend on all dense parameters, so some are "
            f"never trained. Received: {', '.join(names)}"
        )


def _same_ids(trial: Trial) -> Iterator[str]:
    for table, ids, places in zip(
        trial.prepared.signature.tables,
        trial.batch.ids,
        trial.batch.inverse,
        strict=True,
    ):
        if not len(places):
            yield (
                "A table is not looked up in the first batch. "
                f"Received: table {table.name!r}"
            )
        elif len(ids.ids) == 1 and len(places) >= _LEAST_IDS:
            yield (
                "All ids of a table are the same in the first batch: is its "
                f"column parsed? Received: {len(places)} times id "
                f"{ids.ids[0]} in table {table.name!r}"
            )
