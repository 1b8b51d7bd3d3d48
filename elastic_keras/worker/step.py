"""The compiled steps of a worker: train, evaluate and predict."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from elastic_keras.config import ConfigError
from elastic_keras.layers.context import ZeroRows, lookup_scope
from elastic_keras.worker.batches import (
    Batch,
    as_tensors,
    open_batch,
    unpack,
)
from elastic_keras.worker.clip import clip
from elastic_keras.worker.flat import FlatVariables
from elastic_keras.worker.lookup import GatherRows, check_spec, fits_spec
from elastic_keras.worker.loss_scaling import LossScaling
from elastic_keras.worker.losses import make_loss
from elastic_keras.worker.metrics import MetricSet, metric_sets
from elastic_keras.worker.misfit import misfit_explained
from elastic_keras.worker.model import PreparedModel

# Whether there is a vector of values, and the vector.
_Given = tuple[tf.Tensor, tf.Tensor]
MODES = ("train", "evaluate", "predict")


class StepResult(NamedTuple):
    """What a train step hands to the shards.

    Args:
        row_gradients: Per table one gradient per unique row, `(u, dim)`.
        dense: Gradients of all dense parameters, flat, in signature order.
        states: Change of the shared non-trainable variables, likewise.
        loss: The batch's loss, a scalar.
        finite: Whether every gradient is a finite number.
        examples: Size of the batch.
    """

    row_gradients: tuple[tf.Tensor, ...]
    dense: tf.Tensor
    states: tf.Tensor
    loss: tf.Tensor
    finite: tf.Tensor
    examples: tf.Tensor


class Steps:
    """Runs a prepared model on batches whose rows were pulled.

    Every mode is traced once, for any size of the batch and any number of
    unique ids.

    Args:
        prepared: The model.
        metrics: Those of training and of evaluation; `None` makes them by
            the module's `eval_metrics_fn`.
    """

    def __init__(
        self,
        prepared: PreparedModel,
        metrics: tuple[MetricSet, MetricSet] | None = None,
    ) -> None:
        self.prepared = prepared
        names = list(getattr(prepared.model, "output_names", None) or [])
        self._loss = (
            None if prepared.loss is None else make_loss(prepared.loss, names)
        )
        if metrics is None:
            metrics = metric_sets(prepared.metrics, names)
        self.train_metrics, self.evaluation_metrics = metrics
        self._dense = FlatVariables(prepared.dense)
        self._states = FlatVariables(prepared.states)
        self._scaling = LossScaling(prepared.loss_scale)
        self._nothing = tf.zeros([0], tf.float32)
        self._specs: dict[str, Any] = {}
        self._functions: dict[str, Any] = {}
        self._traced: dict[str, Any] = {}

    def expect(self, mode: str, element_spec: Any) -> None:
        """Says what batches of a mode look like, before its first step.

        Args:
            mode: One of `MODES`.
            element_spec: Spec of the dataset's batches.

        Raises:
            ConfigError: Labels are missing, or the spec does not fit the
                one of an earlier task.
        """
        if mode not in MODES:
            raise ValueError(
                f"A mode is one of {', '.join(MODES)}. Received: mode={mode!r}"
            )
        if mode in self._specs:
            check_spec(self._specs[mode], element_spec)
            return
        if mode != "predict" and unpack(element_spec).labels is None:
            raise ConfigError(
                "dataset_fn must give (features, labels) to train or "
                f"evaluate. Received: batches of {element_spec}"
            )
        if mode != "predict" and self._loss is None:
            raise ConfigError(f"A model needs a loss. Received: mode={mode!r}")
        self._specs[mode] = open_batch(element_spec)

    def fits(self, mode: str, element_spec: Any) -> bool:
        """Returns whether a mode takes batches of a spec as it is."""
        expected = self._specs.get(mode)
        return expected is None or fits_spec(expected, element_spec)

    def forget(self, mode: str) -> None:
        """Lets the next `expect` of a mode be of any batches."""
        for kept in (self._specs, self._functions, self._traced):
            kept.pop(mode, None)

    def try_metrics(self, sample_batch: Any) -> None:
        """Lets metrics that need it see a batch before anything is trained.

        Args:
            sample_batch: A batch as the dataset gives it.

        Raises:
            ConfigError: A metric whose states cannot be added up.
        """
        sets = (self.train_metrics, self.evaluation_metrics)
        parts = unpack(sample_batch)
        tried = any(each.must_be_tried for each in sets)
        if parts.labels is None or not tried:
            return
        with lookup_scope(ZeroRows()):
            # As a graph, as in every step.
            outputs = tf.function(self.prepared.model, autograph=False)(
                as_tensors(parts.features), training=False
            )
        for each in sets:
            each.try_out(as_tensors(parts.labels), outputs)

    def train(
        self,
        batch: Any,
        rows: Sequence[Any],
        inverse: Sequence[Any],
        *,
        dense: Any = None,
        states: Any = None,
        count: bool = True,
    ) -> StepResult:
        """Computes the gradients of a batch.

        Variables of the model are afterwards what they were set to. A batch
        whose gradients are not finite does not enter the metrics; where a
        dynamic loss scale is the cause, it is halved and the batch computed
        again.

        Args:
            batch: (features, labels[, sample weights]).
            rows: Per table its unique rows, float32, `(u, dim)`.
            inverse: Per table the row of each lookup, int32, `(n,)`.
            dense: All dense parameters, to set first; see `assign_dense`.
            states: The shared non-trainable variables, likewise.
            count: Whether the batch enters the training metrics.
        """
        function = self._function("train", self._trace_train)
        counted = tf.constant(count)
        # That they are given is said: TensorFlow folds a test of a size.
        given = tuple(
            (
                tf.constant(flat is not None),
                self._nothing if flat is None else flat,
            )
            for flat in (dense, states)
        )
        while True:
            result = function(
                batch, tuple(rows), tuple(inverse), given, counted
            )
            if bool(result.finite) or not self._scaling.reduce():
                return result

    def evaluate(
        self, batch: Any, rows: Sequence[Any], inverse: Sequence[Any]
    ) -> tf.Tensor:
        """Takes a batch into the evaluation metrics; returns its loss."""
        function = self._function("evaluate", self._trace_evaluate)
        return function(batch, tuple(rows), tuple(inverse))

    def predict(
        self, batch: Any, rows: Sequence[Any], inverse: Sequence[Any]
    ) -> Any:
        """Returns the model's output, nested as it is."""
        function = self._function("predict", self._trace_predict)
        return function(batch, tuple(rows), tuple(inverse))

    def traced(self, mode: str) -> Any:
        """Returns a mode's `tf.function`; `None` before its first step."""
        return self._traced.get(mode)

    def assign_dense(self, flat: Any) -> None:
        """Sets all dense parameters: flat float32, signature order."""
        self._dense.assign(flat)

    def assign_states(self, flat: Any) -> None:
        """Sets the shared non-trainable variables, likewise."""
        self._states.assign(flat)

    def get_dense(self) -> np.ndarray:
        """Returns all dense parameters, flat float32, signature order."""
        return self._dense.numpy()

    def get_states(self) -> np.ndarray:
        """Returns the shared non-trainable variables, likewise."""
        return self._states.numpy()

    def _function(self, mode: str, python_function: Callable[..., Any]) -> Any:
        if mode in self._functions:
            return self._functions[mode]
        if mode not in self._specs:
            raise ValueError(
                f"expect() comes before the first step. Received: mode={mode!r}"
            )
        tables = self.prepared.tables
        signature = [
            self._specs[mode],
            tuple(
                tf.TensorSpec([None, layer.output_dim], tf.float32)
                for layer in tables
            ),
            tuple(tf.TensorSpec([None], tf.int32) for _ in tables),
        ]
        if mode == "train":
            is_true = tf.TensorSpec([], tf.bool)
            flat = (is_true, tf.TensorSpec([None], tf.float32))
            signature += [(flat, flat), is_true]
        # Without autograph, as in Keras, an exception of the user's stays
        # what it is.
        function = tf.function(
            python_function, input_signature=signature, autograph=False
        )
        # Called as one concrete function: to find it anew in each step costs
        # the main thread half a millisecond.
        with misfit_explained(self._specs[mode]):
            self._functions[mode] = function.get_concrete_function()
        self._traced[mode] = function
        return self._functions[mode]

    def _call(
        self, features: Any, rows: Any, inverse: Any, training: bool
    ) -> Any:
        prepared = self.prepared
        context = GatherRows(list(prepared.tables), list(rows), list(inverse))
        with lookup_scope(context):
            return prepared.model(features, training=training)

    def _total_loss(self, parts: Batch, outputs: Any, rows: Any) -> tf.Tensor:
        """Returns the loss with everything that Keras adds to it."""
        assert self._loss is not None
        total = self._loss(parts.labels, outputs, parts.weights)
        for loss in self.prepared.model.losses:
            total += tf.reduce_sum(tf.cast(loss, tf.float32))
        for layer, table_rows in zip(self.prepared.tables, rows, strict=True):
            if layer.embeddings_regularizer is not None:
                total += layer.embeddings_regularizer(table_rows)
        return total

    def _trace_train(
        self,
        batch: Any,
        rows: Any,
        inverse: Any,
        given: tuple[_Given, _Given],
        count: tf.Tensor,
    ) -> StepResult:
        parts = unpack(batch)
        # Here, not in a call of its own: the main thread's time is dear.
        _write_if_given(self._dense, *given[0])
        _write_if_given(self._states, *given[1])
        before = self._states.read()
        variables = [variable.value for variable in self.prepared.dense]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch([*rows, *variables])
            outputs = self._call(parts.features, rows, inverse, True)
            loss = self._total_loss(parts, outputs, rows)
            scaled = self._scaling.scale(loss)
        gradients = self._gradients(tape, scaled, [*rows, *variables])
        deltas = self._states.flat_difference(before)
        self._states.write(before)
        finite = _all_finite(gradients)
        self._scaling.count(finite)
        examples = _batch_size(parts.features)
        self._count(
            self.train_metrics, parts, outputs, loss, examples, count & finite
        )
        gradients = clip(
            gradients, self._groups(), list(self.prepared.clippings)
        )
        return StepResult(
            row_gradients=tuple(gradients[: len(rows)]),
            dense=self._dense.flatten(gradients[len(rows) :]),
            states=deltas,
            loss=loss,
            finite=finite,
            examples=examples,
        )

    def _trace_evaluate(self, batch: Any, rows: Any, inverse: Any) -> tf.Tensor:
        parts = unpack(batch)
        outputs = self._call(parts.features, rows, inverse, False)
        loss = self._total_loss(parts, outputs, rows)
        self._count(
            self.evaluation_metrics,
            parts,
            outputs,
            loss,
            _batch_size(parts.features),
            tf.constant(True),
        )
        return loss

    def _trace_predict(self, batch: Any, rows: Any, inverse: Any) -> Any:
        return self._call(unpack(batch).features, rows, inverse, False)

    def _groups(self) -> list[int]:
        """Position of the optimizer of each table, then each variable."""
        signature = self.prepared.signature
        tables = [table.optimizer for table in signature.tables]
        return tables + [dense.optimizer for dense in signature.dense]

    def _gradients(
        self, tape: tf.GradientTape, loss: tf.Tensor, sources: list[Any]
    ) -> list[tf.Tensor]:
        """Returns dense, unscaled gradients; zeros where there is none."""
        # For a table, Keras's IndexedSlices become one gradient per row by a
        # segment sum.
        return [
            self._scaling.unscale(tf.convert_to_tensor(gradient))
            for gradient in tape.gradient(
                loss,
                sources,
                unconnected_gradients=tf.UnconnectedGradients.ZERO,
            )
        ]

    def _count(
        self,
        metrics: MetricSet,
        parts: Batch,
        outputs: Any,
        loss: tf.Tensor,
        examples: tf.Tensor,
        condition: tf.Tensor,
    ) -> None:
        specs = tf.nest.map_structure(
            tf.type_spec_from_value, (parts.labels, outputs)
        )
        # Metrics make variables at their first batch; that cannot happen in
        # a condition.
        with tf.init_scope():
            metrics.build(*specs)

        def update() -> tf.Tensor:
            metrics.update(parts.labels, outputs, loss, examples)
            return tf.constant(True)

        tf.cond(condition, update, lambda: tf.constant(False))


def _all_finite(tensors: list[tf.Tensor]) -> tf.Tensor:
    checks = [tf.reduce_all(tf.math.is_finite(tensor)) for tensor in tensors]
    return tf.reduce_all(tf.stack([tf.constant(True), *checks]))


def _write_if_given(
    variables: FlatVariables, is_given: tf.Tensor, flat: tf.Tensor
) -> None:
    """Sets variables to a vector if there is one, in a graph."""
    if not variables.size:
        return

    def write() -> tf.Tensor:
        variables.write_flat(tf.ensure_shape(flat, [variables.size]))
        return tf.constant(True)

    tf.cond(is_given, write, lambda: tf.constant(False))


def _batch_size(features: Any) -> tf.Tensor:
    first = next(x for x in tf.nest.flatten(features) if x is not None)
    if isinstance(first, tf.RaggedTensor):
        return tf.cast(first.nrows(), tf.int64)
    if isinstance(first, tf.SparseTensor):
        return first.dense_shape[0]
    return tf.shape(first, out_type=tf.int64)[0]
