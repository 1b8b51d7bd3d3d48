"""A SavedModel that needs TensorFlow and nothing else."""

import pathlib
from typing import Any

import tensorflow as tf

from elastic_keras.exports.checkpoint import fill_tables
from elastic_keras.exports.lookup import TableLookup, TableVariables
from elastic_keras.exports.serving import NamedInputs, named_outputs
from elastic_keras.exports.trained_model import TrainedModel
from elastic_keras.layers.context import lookup_scope
from elastic_keras.worker.misfit import misfit_explained

FOLDER = "saved_model"
SIGNATURE = "serving_default"
_RESOURCES = (
    tf.lookup.StaticHashTable,
    tf.lookup.experimental.MutableHashTable,
)


def write_saved_model(
    trained: TrainedModel, folder: pathlib.Path
) -> dict[str, Any]:
    """Writes FOLDER/saved_model.

    `serving_default` takes the model's inputs by their names; `serve` of the
    loaded object takes features nested as the model has them, and
    `serve_with_loss` also returns what the model adds to its loss.

    Args:
        trained: The model.
        folder: The export's folder.

    Returns:
        `inputs` and `outputs`: dtype and shape of each, by name; and
        `output_names`, as the model has them.

    Raises:
        ConfigError: Features do not fit the model.
        OSError: It cannot be written.
    """
    path = folder / FOLDER
    module = _Served(trained)
    with misfit_explained(trained.features):
        signature = module.named.get_concrete_function(**module.inputs.specs)
    try:
        tf.saved_model.save(
            module, str(path), signatures={SIGNATURE: signature}
        )
    except tf.errors.OpError as error:
        raise OSError(
            f"The SavedModel cannot be written: {error.message}"
        ) from error
    names = [f"tables/{i}" for i in range(len(module.tables))]
    fill_tables(path, trained.snapshot, names)
    return {
        "inputs": _described(module.inputs.specs),
        "outputs": _described(signature.structured_outputs),
        "output_names": list(
            getattr(trained.prepared.model, "output_names", None) or []
        ),
    }


class _Served(tf.Module):
    """What a SavedModel holds.

    Args:
        trained: The model.
    """

    def __init__(self, trained: TrainedModel) -> None:
        super().__init__()
        prepared = trained.prepared
        model = prepared.model
        self.tables = [
            TableVariables(table.dim, trained.snapshot.rows(number))
            for number, table in enumerate(trained.signature.tables)
        ]
        self.dense = [variable.value for variable in model.variables]
        self.resources = _resources(model)
        inputs = NamedInputs(model, trained.features)
        tables = list(self.tables)

        def serve_with_loss(features: Any) -> Any:
            context = TableLookup(prepared.tables, tables, trained.signature)
            with lookup_scope(context):
                outputs = model(features, training=False)
            total = context.regularization()
            for loss in model.losses:
                total += tf.reduce_sum(tf.cast(loss, tf.float32))
            return outputs, total

        def serve(features: Any) -> Any:
            return serve_with_loss(features)[0]

        # Without autograph, as in Keras.
        self.serve, self.serve_with_loss = (
            tf.function(
                each, input_signature=[trained.features], autograph=False
            )
            for each in (serve, serve_with_loss)
        )

        def named(**tensors: tf.Tensor) -> dict[str, tf.Tensor]:
            return named_outputs(model, self.serve(inputs.pack(tensors)))

        self.named = tf.function(named, autograph=False)
        # Not to be saved.
        self._inputs = [inputs]

    @property
    def inputs(self) -> NamedInputs:
        """The inputs by name."""
        return self._inputs[0]


def _resources(model: Any) -> list[Any]:
    """Returns what else the graph needs: lookup tables of Keras's layers."""
    view = tf.train.TrackableView(model)
    return [
        found for found in view.descendants() if isinstance(found, _RESOURCES)
    ]


def _described(specs: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {"dtype": spec.dtype.name, "shape": spec.shape.as_list()}
        for name, spec in specs.items()
    }
