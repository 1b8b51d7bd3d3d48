"""The lines that a check prints."""

import math
import os
from collections.abc import Iterator, Mapping
from typing import Any

from elastic_keras.checking.parts import bounds, named_parts
from elastic_keras.signature import (
    InitializerSpec,
    ModelSignature,
    OptimizerSpec,
)
from elastic_keras.worker import items
from elastic_keras.worker.batches import unpack
from elastic_keras.worker.job_data import count_examples

_WIDTH = 10
_FLOAT_BYTES = 4
_UNITS = ("bytes", "KiB", "MiB", "GiB")


def row(name: str, text: str) -> str:
    """Returns a line of the report, or several that belong together.

    Args:
        name: What it is about.
        text: What is found, one or several lines.
    """
    first, *more = text.splitlines() or [""]
    indent = " " * _WIDTH
    return "\n".join([f"{name:<{_WIDTH}}{first}", *(indent + x for x in more)])


def short_path(path: str) -> str:
    """Returns a path as seen from the current folder, if it is below."""
    relative = os.path.relpath(path)
    return path if relative.startswith(os.pardir) else relative


def contract(lines: Mapping[str, int]) -> str:
    """Returns the names of the contract that a module has.

    Args:
        lines: The line of each.
    """
    return ", ".join(f"{name} (line {line})" for name, line in lines.items())


def batch(sample: Any) -> str:
    """Describes a batch of examples.

    Args:
        sample: (features[, labels[, sample weights]]).
    """
    parts = unpack(sample)
    lines = [f"size {count_examples(sample)}"]
    for name in ("features", "labels", "weights"):
        part = getattr(parts, name)
        if part is not None:
            described = _with_ranges if name == "labels" else specs
            lines.append(described(part, name))
    return "\n".join(lines)


def specs(nested: Any, name: str = "predictions") -> str:
    """Returns dtype and shape of each part of a structure of tensors."""
    return "\n".join(
        f"{part} {value.dtype.name} {tuple(value.shape)}"
        for part, value in named_parts(nested, name)
    )


def _with_ranges(nested: Any, name: str) -> str:
    """Does as `specs`, and adds from which number to which each part goes."""
    lines = specs(nested, name).splitlines()
    found = [bounds(value) for _, value in named_parts(nested, name)]
    return "\n".join(
        f"{line}, {span[0]:.6g} to {span[1]:.6g}" if span else line
        for line, span in zip(lines, found, strict=True)
    )


def parameters(signature: ModelSignature, first: items.Batch) -> Iterator[str]:
    """Gives a row for each PS table, and one for the dense parameters.

    Args:
        signature: The model's.
        first: A batch, with its ids.
    """
    for table, ids, places in zip(
        signature.tables, first.ids, first.inverse, strict=True
    ):
        optimizer = signature.optimizers[table.optimizer]
        yield row(
            "table",
            f"{table.name}: width {table.dim}, "
            f"{_initializer(table.initializer)}, {_optimizer(optimizer)}; "
            f"ids {len(places)}, unique {len(ids.ids)}",
        )
    sizes = [math.prod(dense.shape) for dense in signature.dense]
    yield row(
        "dense",
        f"{len(sizes)} parameters, {sum(sizes):,} numbers, "
        f"{_bytes(sum(sizes) * _FLOAT_BYTES)}, "
        f"{_optimizer(signature.optimizers[0])}",
    )


def values(metrics: Mapping[str, float]) -> str:
    """Returns metrics by name."""
    return ", ".join(f"{name} {value:.6g}" for name, value in metrics.items())


def _initializer(spec: InitializerSpec) -> str:
    if spec.name == "constant":
        return f"all {spec.a:g}"
    return f"{spec.name}({spec.a:.4g}, {spec.b:.4g})"


def _optimizer(spec: OptimizerSpec) -> str:
    if spec.schedule is not None:
        return f"{spec.name}({spec.schedule.name})"
    return f"{spec.name}({spec.learning_rate:g})"


def _bytes(size: float) -> str:
    for unit in _UNITS[:-1]:
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} {_UNITS[-1]}"
