"""The parts of a nested structure, by name."""

from collections.abc import Iterator
from typing import Any


def named_parts(nested: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Gives the leaves of dicts, lists and tuples; `None` is none.

    Args:
        nested: The structure.
        name: Its own name.

    Yields:
        Names such as `features['user']`, and the leaves.
    """
    if isinstance(nested, dict):
        for key, part in nested.items():
            yield from named_parts(part, f"{name}[{key!r}]")
    elif isinstance(nested, list | tuple):
        for index, part in enumerate(nested):
            yield from named_parts(part, f"{name}[{index}]")
    elif nested is not None:
        yield name, nested
