"""The flags --model_params and --data_reader_params."""

import ast
from collections.abc import Mapping
from typing import Any

from elastic_keras.config import ConfigError

_EXAMPLE = "write e.g. 'dim=8; hidden=[64,32]; name=\"x\"'"


def parse_params(text: str) -> dict[str, Any]:
    """Reads arguments such as `dim=8; hidden=[64,32]; name="x"`.

    Args:
        text: Python literals by name, separated by semicolons.

    Raises:
        ConfigError: Anything else.
    """
    try:
        statements = ast.parse(text.strip()).body
    except (SyntaxError, ValueError) as error:
        raise _wrong(text) from error
    params: dict[str, Any] = {}
    for statement in statements:
        if not isinstance(statement, ast.Assign) or len(statement.targets) > 1:
            raise _wrong(text)
        target = statement.targets[0]
        if not isinstance(target, ast.Name) or target.id in params:
            raise _wrong(text)
        try:
            params[target.id] = ast.literal_eval(statement.value)
        except ValueError as error:
            raise _wrong(text) from error
    return params


def format_params(params: Mapping[str, Any]) -> str:
    """Writes what `parse_params` reads.

    Args:
        params: Python literals by name.

    Raises:
        ConfigError: A value is no literal.
    """
    text = "; ".join(f"{name}={value!r}" for name, value in params.items())
    if parse_params(text) != dict(params):
        raise _wrong(text)
    return text


def _wrong(text: str) -> ConfigError:
    return ConfigError(
        "Parameters are Python literals by name, each name once, separated "
        f"by semicolons; {_EXAMPLE}. Received: {text!r}"
    )
