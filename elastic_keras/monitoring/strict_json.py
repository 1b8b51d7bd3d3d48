"""JSON that every reader takes."""

import json
import math
from typing import Any


def dumps(value: Any) -> str:
    """Returns the text of plain data, on several lines.

    Args:
        value: Numbers that are not finite become null: JSON has no NaN.
    """
    return json.dumps(_strict(value), indent=2)


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
