"""Makes a Keras model ready for a job and describes it to the shards."""

import dataclasses
import logging
from collections.abc import Callable
from typing import Any

import keras

from elastic_keras.config import ConfigError
from elastic_keras.layers import Embedding
from elastic_keras.layers.context import ZeroRows, lookup_scope
from elastic_keras.worker import swap
from elastic_keras.worker.batches import (
    as_tensors,
    open_batch,
    spec_of,
    unpack,
)
from elastic_keras.worker.describe import Description, describe
from elastic_keras.worker.features import known_shapes, write_features
from elastic_keras.worker.misfit import misfit_explained
from elastic_keras.worker.optimizers import unwrap
from elastic_keras.worker.recording import Recording
from elastic_keras.worker.unconnected import moves_without_gradient, unconnected

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class PreparedModel(Description):
    """A model whose large embeddings are PS tables, and its description.

    Args:
        model: The Keras model, built.
        loss: The user's loss, or `None`.
        metrics: The user's `eval_metrics_fn`, or `None`.
    """

    model: keras.Model
    loss: Any
    metrics: Callable[[], dict[str, Any]] | None

    @property
    def optimizer(self) -> Any:
        """The model's own Keras optimizer, out of any loss scaling."""
        return self.optimizers[0]


# What Keras's `fit` and `evaluate` call, and a job does not.
_OF_FIT = ("train_step", "test_step", "compute_loss", "compute_metrics")


def prepare(
    model: keras.Model,
    loss: Any,
    optimizer: Any,
    metrics: Callable[[], dict[str, Any]] | None,
    *,
    sample_batch: Any,
    seed: int,
    threshold_bytes: int,
    features_spec: Any = None,
) -> PreparedModel:
    """Builds a model, makes its large embeddings tables and describes it.

    Keras Embedding layers of at least `threshold_bytes` become PS tables in
    place; one that cannot, stays and is named in the log. A Keras Embedding
    of a functional model has its weights allocated by `custom_model` until
    this function frees them: `layers.Embedding` never has any.

    Args:
        model: The user's model.
        loss: The user's loss, or `None`.
        optimizer: Keras optimizer, or `None` if the job does not train.
        metrics: The user's `eval_metrics_fn`, or `None`.
        sample_batch: A batch as the dataset gives it; its shapes and dtypes
            build the model.
        seed: The job's seed, for the rows' initial values.
        threshold_bytes: Least size of a Keras Embedding that is swapped.
        features_spec: Spec of all batches' features where it is known; a
            batch alone does not tell which of its lengths are its own.

    Raises:
        ConfigError: The model, or what it uses, cannot run in a job.
    """
    if not isinstance(model, keras.Model):
        raise ConfigError(
            "custom_model must return a keras.Model. "
            f"Received: {type(model).__name__}"
        )
    _refuse_own_steps(model)
    features = as_tensors(unpack(sample_batch).features)
    spec = spec_of(features)
    swapped = swap.swap(model, threshold_bytes)
    if not model.built:
        with misfit_explained(spec), lookup_scope(ZeroRows()):
            model(features)
        # Layers that were made while the model was built.
        swapped += swap.swap(model, threshold_bytes)
    with misfit_explained(spec):
        recording = _record(model, spec, swapped)
    tables = _find_tables(model, recording)
    still: frozenset[int] = frozenset()
    if loss is not None and moves_without_gradient(unwrap(optimizer)):
        still = unconnected(model, loss, sample_batch)
    described = describe(
        model, optimizer, tables, recording.changed, seed, still
    )
    told = spec if features_spec is None else features_spec
    signature = dataclasses.replace(
        described.signature,
        features=write_features(known_shapes(open_batch(told), spec)),
    )
    for layer in tables:
        logger.info("%s: a PS table of width %d", layer.name, layer.output_dim)
        if isinstance(layer, Embedding):
            layer.join_job()
    return PreparedModel(
        model=model,
        loss=loss,
        metrics=metrics,
        **{**vars(described), "signature": signature},
    )


def _record(
    model: keras.Model, features_spec: Any, swapped: list[Any]
) -> Recording:
    """Traces the model; puts layers back that do not work as tables."""
    waiting = list(swapped)
    while True:
        recording = Recording(model, features_spec, training=True)
        inside = {id(layer) for layer in recording.inside()}
        dependent = {id(layer) for layer in recording.dependent()}
        stays = []
        for layer in waiting:
            if layer.weights_were_read:
                stays.append((layer, "the model reads its weights"))
            elif id(layer) in inside:
                stays.append((layer, "it is called in a loop or condition"))
            elif id(layer) in dependent:
                stays.append((layer, "its ids depend on an embedding"))
        if not stays:
            break
        for layer, reason in stays:
            swap.undo(layer, reason)
            waiting = [other for other in waiting if other is not layer]
    for layer in waiting:
        swap.release(layer)
    return recording


def _find_tables(model: keras.Model, recording: Recording) -> tuple[Any, ...]:
    """Returns the PS layers: tracked ones, then others that were called."""
    kinds = (Embedding, swap.TableEmbedding)
    found = [
        layer for layer in model._flatten_layers() if isinstance(layer, kinds)
    ]
    for layer, _ in recording.calls:
        if all(layer is not other for other in found):
            found.append(layer)
    return tuple(found)


def _refuse_own_steps(model: keras.Model) -> None:
    for name in _OF_FIT:
        if getattr(type(model), name) is not getattr(keras.Model, name):
            raise ConfigError(
                f"A job makes the step itself and would not call {name}: use "
                "loss, eval_metrics_fn and add_loss instead. Received: "
                f"{type(model).__name__}.{name}"
            )
