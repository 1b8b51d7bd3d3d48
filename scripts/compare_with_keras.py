"""Trains the same model here and in plain Keras, and compares held-out AUC.

    python scripts/compare_with_keras.py --data_dir=DIR [--seeds=10]

DIR holds `criteo_8k/{train,dev,test}.tsv` and `adult/adult.{data,test}`. One
side is `elastic_keras.train` with 2 workers, 2 shards and a staleness of up
to 4; the other is `Model.fit` in one process, with Keras's own Embedding in
place of the PS embeddings. Module, optimizer, batch size, epochs and
distribution of initial values are the same.
"""

import argparse
import dataclasses
import json
import math
import pathlib
import statistics
import sys
import time
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import elastic_keras as ek
from elastic_keras.config import DataOptions, ModelOptions
from elastic_keras.data.pipeline import BatchPipeline
from elastic_keras.data.reader import open_reader
from elastic_keras.zoo.modes import Mode
from elastic_keras.zoo.module import ZooModule, load

_ZOO = pathlib.Path(__file__).resolve().parents[1] / "model_zoo"
_ALL = 1 << 40


@dataclasses.dataclass(frozen=True)
class Case:
    """A module, its data and how it is trained."""

    module: str
    training: tuple[str, ...]
    held_out: tuple[str, ...]
    minibatch_size: int
    epochs: int

    def files(self, folder: pathlib.Path, names: tuple[str, ...]) -> str:
        """Returns a data flag's value."""
        return ",".join(str(folder / name) for name in names)


CASES = {
    "criteo_8k": Case(
        "criteo.deepfm",
        ("criteo_8k/train.tsv",),
        ("criteo_8k/dev.tsv", "criteo_8k/test.tsv"),
        minibatch_size=64,
        epochs=3,
    ),
    "adult": Case(
        "census.wide_deep",
        ("adult/adult.data",),
        ("adult/adult.test",),
        minibatch_size=128,
        epochs=3,
    ),
}


@keras.saving.register_keras_serializable(package="compare")
class PlainEmbedding(keras.layers.Layer):
    """Keras's Embedding behind a lookup from ids to row numbers."""

    def __init__(self, like: ek.layers.Embedding, ids: np.ndarray) -> None:
        super().__init__(name=like.name)
        initializer = keras.initializers.serialize(like.embeddings_initializer)
        self._embedding = keras.layers.Embedding(
            len(ids), like.output_dim, keras.initializers.get(initializer)
        )
        self._rows = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(
                ids, np.arange(len(ids), dtype=np.int64)
            ),
            -1,
        )
        self._combiner = like.combiner
        if self._combiner not in (None, "sum"):
            raise ValueError(f"Received: combiner={self._combiner!r}")

    def call(self, ids: tf.Tensor) -> tf.Tensor:
        rows = self._embedding(self._rows.lookup(ids))
        return rows if self._combiner is None else tf.reduce_sum(rows, axis=-2)


def train_here(
    case: Case, folder: pathlib.Path, seed: int, jobs: pathlib.Path
) -> float:
    """Returns the held-out AUC of a job with 2 workers and 2 shards."""
    result = ek.train(
        case.module,
        model_zoo=str(_ZOO),
        training_data=case.files(folder, case.training),
        validation_data=case.files(folder, case.held_out),
        minibatch_size=case.minibatch_size,
        num_epochs=case.epochs,
        num_workers=2,
        num_ps=2,
        max_staleness=4,
        seed=seed,
        job_dir=str(jobs / f"{case.module}-{seed}-{time.time_ns()}"),
        progress="none",
    )
    return result.evaluation["auc"]


class KerasSide:
    """The same case in plain Keras; data are read once.

    Args:
        case: What to train.
        folder: Where the data are.
    """

    def __init__(self, case: Case, folder: pathlib.Path) -> None:
        self._case = case
        self._zoo = load(
            ModelOptions(model_zoo=str(_ZOO), model_def=case.module)
        )
        self._training = _arrays(self._zoo, case.files(folder, case.training))
        self._held_out = _arrays(self._zoo, case.files(folder, case.held_out))
        ids = [
            values.ravel()
            for features, _ in (self._training, self._held_out)
            for values in features.values()
            if values.dtype == np.int64
        ]
        self._ids = np.unique(np.concatenate(ids))

    def train(self, seed: int) -> float:
        """Returns the held-out AUC after training with `Model.fit`."""
        keras.backend.clear_session()
        keras.utils.set_random_seed(seed)
        model = keras.models.clone_model(
            self._zoo.custom_model(), clone_function=self._plain
        )
        model.compile(
            self._zoo.optimizer(),
            self._zoo.loss,
            metrics=[self._zoo.eval_metrics_fn()["auc"]],
        )
        size = self._case.minibatch_size
        features, labels = self._training
        data = tf.data.Dataset.from_tensor_slices((features, labels))
        data = data.shuffle(len(labels)).batch(size)
        model.fit(data, epochs=self._case.epochs, verbose=0)
        features, labels = self._held_out
        result = model.evaluate(
            features, labels, batch_size=1024, verbose=0, return_dict=True
        )
        return result["auc"]

    def _plain(self, layer: keras.layers.Layer) -> keras.layers.Layer:
        if isinstance(layer, ek.layers.Embedding):
            return PlainEmbedding(layer, self._ids)
        return layer.__class__.from_config(layer.get_config())


def _arrays(zoo: ZooModule, data: str) -> tuple[dict[str, Any], Any]:
    """Returns features and labels of files, as the module reads them."""
    reader = open_reader(data, DataOptions())
    pipeline = BatchPipeline(
        zoo.dataset_fn, Mode.EVALUATION, reader.metadata, 1024
    )
    batches = [
        batch
        for record_range in reader.ranges(_ALL)
        for batch in pipeline(reader.dataset(record_range)[0])
    ]
    features = {
        name: np.concatenate([batch[0][name].numpy() for batch in batches])
        for name in batches[0][0]
    }
    return features, np.concatenate([batch[1].numpy() for batch in batches])


def _summary(values: list[float]) -> tuple[float, float]:
    """Returns mean and standard error."""
    error = statistics.stdev(values) / math.sqrt(len(values))
    return statistics.mean(values), error


def _compare(name: str, flags: argparse.Namespace) -> dict[str, Any]:
    case, folder = CASES[name], pathlib.Path(flags.data_dir)
    keras_side = KerasSide(case, folder)
    plain: list[float] = []
    here: list[float] = []
    for seed in range(flags.seeds):
        plain.append(keras_side.train(seed))
        here.append(train_here(case, folder, seed, pathlib.Path(flags.jobs)))
        print(
            f"{name} seed {seed}: elastic_keras {here[-1]:.4f}, "
            f"keras {plain[-1]:.4f}",
            flush=True,
        )
    ours, our_error = _summary(here)
    theirs, their_error = _summary(plain)
    return {
        "module": case.module,
        "minibatch_size": case.minibatch_size,
        "epochs": case.epochs,
        "seeds": flags.seeds,
        "elastic_keras": ours,
        "elastic_keras_error": our_error,
        "keras": theirs,
        "keras_error": their_error,
        "difference": ours - theirs,
        "difference_error": math.hypot(our_error, their_error),
        "runs": {"elastic_keras": here, "keras": plain},
    }


def main() -> None:
    """Compares and prints a line a case."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data_dir", default="../shared/data")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--seeds", type=int, default=10, help="at least 2")
    parser.add_argument("--jobs", default="runs/compare")
    parser.add_argument("--output", help="a JSON file for every figure")
    flags = parser.parse_args()
    if flags.seeds < 2:
        sys.exit(f"error: --seeds is at least 2. Received: {flags.seeds}")
    results = {n: _compare(n, flags) for n in flags.cases.split(",")}
    for name, r in results.items():
        print(
            f"{name}: {r['module']}, {r['seeds']} seeds, batch "
            f"{r['minibatch_size']}, {r['epochs']} epochs: held-out AUC "
            f"elastic_keras {r['elastic_keras']:.4f} ± "
            f"{r['elastic_keras_error']:.4f}, keras {r['keras']:.4f} ± "
            f"{r['keras_error']:.4f}, difference {r['difference']:+.4f} ± "
            f"{r['difference_error']:.4f}"
        )
    if flags.output:
        pathlib.Path(flags.output).write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
