"""Makes data in Criteo's format whose best reachable AUC is known.

    python -m model_zoo.criteo.make_data data/criteo --rows 200000

Categorical values are drawn from Zipf-like distributions, and the label from
a planted model: a logit of one weight a value, interactions of some pairs of
features, and curves over the integer features. Since the true probabilities
are known, so is the AUC that no model can beat on average; it is computed on
the validation rows and written to `planted.json`.
"""

import argparse
import dataclasses
import itertools
import json
import pathlib
from collections.abc import Iterator

import numpy as np

ROWS = 500_000
NUM_INTEGERS = 13
# Distinct values of each categorical feature, from the few of a device type
# to the many of a page.
# fmt: off
VOCABULARY = (
    300, 200, 1200, 800, 60, 12, 600, 80, 3, 1000, 600, 1500, 400,
    20, 500, 900, 10, 350, 200, 4, 1200, 12, 15, 700, 40, 600,
)
# fmt: on
_PAIRS = ((5, 8), (16, 19), (13, 22), (21, 8))
_CHUNK = 100_000
_LARGEST_INTEGER = 50_000


@dataclasses.dataclass(frozen=True)
class Rows:
    """Examples as numbers.

    Args:
        integers: Counts, -1 where missing, int64 `(n, 13)`.
        values: Number of each categorical value, -1 where missing, int64
            `(n, 26)`.
        probability: Of a click, float64 `(n,)`.
        label: Clicks, int64 `(n,)`.
    """

    integers: np.ndarray
    values: np.ndarray
    probability: np.ndarray
    label: np.ndarray


class Planted:
    """The model that labels are drawn from.

    Args:
        seed: Of the model; the same seed plants the same model.
    """

    def __init__(self, seed: int = 0) -> None:
        random = np.random.default_rng([seed, 0])
        self._shares = [_zipf(size) for size in VOCABULARY]
        # The last entry of each array is for a missing value. Rare values
        # matter little: what cannot be learned from the rows at hand would
        # only lower what a model can reach.
        self._weights = [
            0.5 * random.normal(size=len(p) + 1) * _weight_of(p)
            for p in self._shares
        ]
        self._vectors = {
            feature: random.normal(size=(VOCABULARY[feature] + 1, 2))
            * _weight_of(self._shares[feature])[:, np.newaxis]
            for feature in sorted(set(itertools.chain(*_PAIRS)))
        }
        self._missing = random.choice((0.0, 0.02, 0.2), size=len(VOCABULARY))
        self._integer_missing = random.choice(
            (0.0, 0.1, 0.25), size=NUM_INTEGERS
        )
        self._scale = random.uniform(0.5, 2.5, size=NUM_INTEGERS)
        self._slope = 0.25 * random.normal(size=NUM_INTEGERS)
        self._bend = 0.04 * random.normal(size=NUM_INTEGERS)

    def draw(self, count: int, random: np.random.Generator) -> Rows:
        """Draws examples.

        Args:
            count: How many.
            random: Where chance comes from.
        """
        values = np.empty((count, len(VOCABULARY)), np.int64)
        for feature, share in enumerate(self._shares):
            values[:, feature] = random.choice(len(share), count, p=share)
            gone = random.random(count) < self._missing[feature]
            values[gone, feature] = -1
        logs = self._scale * np.abs(random.normal(size=(count, NUM_INTEGERS)))
        integers = np.minimum(np.expm1(logs), _LARGEST_INTEGER).astype(np.int64)
        gone = random.random(integers.shape) < self._integer_missing
        integers[gone] = -1
        probability = 1 / (1 + np.exp(-self._logit(integers, values)))
        label = (random.random(count) < probability).astype(np.int64)
        return Rows(integers, values, probability, label)

    def _logit(self, integers: np.ndarray, values: np.ndarray) -> np.ndarray:
        logit = np.full(len(values), -1.4)
        for feature, weights in enumerate(self._weights):
            logit += weights[values[:, feature]]
        for a, b in _PAIRS:
            left = self._vectors[a][values[:, a]]
            right = self._vectors[b][values[:, b]]
            logit += 0.12 * (left * right).sum(axis=1)
        known = integers >= 0
        level = np.log1p(np.maximum(integers, 0)) / self._scale - 0.8
        curve = self._slope * level + self._bend * (level**2 - 0.36)
        return logit + np.where(known, curve, 0.0).sum(axis=1)


def make(output: str, rows: int, seed: int = 0) -> dict[str, float]:
    """Writes `train.tsv`, `validation.tsv` and `planted.json`.

    Args:
        output: Folder to write to; made if need be.
        rows: Training examples; a tenth as many validate, at least 10 000.
        seed: Of the planted model and the examples.

    Returns:
        What `planted.json` holds.
    """
    folder = pathlib.Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    planted = Planted(seed)
    names = _names(seed)
    validation_rows = max(rows // 10, 10_000)
    _write(folder / "train.tsv", planted, names, rows, [seed, 1])
    truth = _write(
        folder / "validation.tsv", planted, names, validation_rows, [seed, 2]
    )
    probability, label = truth
    summary = {
        "best_auc": auc(label, probability),
        "best_log_loss": _log_loss(label, probability),
        "positive_rate": float(label.mean()),
        "rows": rows,
        "validation_rows": validation_rows,
        "seed": seed,
    }
    text = json.dumps(summary, indent=2) + "\n"
    (folder / "planted.json").write_text(text)
    return summary


def auc(label: np.ndarray, score: np.ndarray) -> float:
    """Returns the area under the ROC curve, ties counted half.

    Args:
        label: 0 or 1, `(n,)`.
        score: Any numbers, `(n,)`.
    """
    _, inverse, counts = np.unique(
        score, return_inverse=True, return_counts=True
    )
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    positives = int(label.sum())
    negatives = len(label) - positives
    above = ranks[label == 1].sum() - positives * (positives + 1) / 2
    return float(above / (positives * negatives))


def _log_loss(label: np.ndarray, probability: np.ndarray) -> float:
    likely = np.where(label == 1, probability, 1 - probability)
    return float(-np.log(likely).mean())


def _zipf(size: int) -> np.ndarray:
    share = 1 / (np.arange(size) + 2.0) ** 1.4
    return share / share.sum()


def _weight_of(share: np.ndarray) -> np.ndarray:
    """Returns how much each value matters; the last is a missing one."""
    return np.append(share / (share + 0.05), 1.0)


def _names(seed: int) -> list[np.ndarray]:
    """Returns eight hexadecimal digits for each value, "" for missing."""
    random = np.random.default_rng([seed, 3])
    return [
        np.array(
            [f"{n:08x}" for n in random.integers(0, 2**32, size)] + [""],
            dtype=object,
        )
        for size in VOCABULARY
    ]


def _write(
    path: pathlib.Path,
    planted: Planted,
    names: list[np.ndarray],
    count: int,
    seed: list[int],
) -> tuple[np.ndarray, np.ndarray]:
    """Writes a file; returns its rows' probabilities and labels."""
    random = np.random.default_rng(seed)
    digits = [str(n) for n in range(_LARGEST_INTEGER + 1)]
    integers = np.array([*digits, ""], dtype=object)
    probabilities, labels = [], []
    with open(path, "w", encoding="ascii", newline="\n") as file:
        for start in range(0, count, _CHUNK):
            rows = planted.draw(min(_CHUNK, count - start), random)
            file.writelines(_lines(rows, integers, names))
            probabilities.append(rows.probability)
            labels.append(rows.label)
    return np.concatenate(probabilities), np.concatenate(labels)


def _lines(
    rows: Rows, integers: np.ndarray, names: list[np.ndarray]
) -> Iterator[str]:
    columns = [integers[rows.label].tolist()]
    columns += [integers[c].tolist() for c in rows.integers.T]
    columns += [
        n[c].tolist() for n, c in zip(names, rows.values.T, strict=True)
    ]
    for fields in zip(*columns, strict=True):
        yield "\t".join(fields) + "\n"


def main() -> None:
    """Makes data as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("output", help="folder to write to")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--seed", type=int, default=0)
    flags = parser.parse_args()
    print(json.dumps(make(flags.output, flags.rows, flags.seed)))


if __name__ == "__main__":
    main()
