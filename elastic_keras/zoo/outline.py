"""What a model-zoo module says of itself, without running it."""

import ast
import dataclasses
import importlib.util
import os
import sys

from elastic_keras.zoo.location import bound

_NEEDED = {
    "custom_model": ("custom_model",),
    "loss": ("loss",),
    "optimizer": ("optimizer",),
    "dataset_fn": ("dataset_fn", "feed"),
}
_OPTIONAL = (
    "eval_metrics_fn",
    "callbacks",
    "prediction_outputs_processor",
    "custom_data_reader",
)


@dataclasses.dataclass(frozen=True)
class Outline:
    """A module's names, and what is wrong with it as far as reading tells.

    Args:
        summary: The first line of its docstring.
        lines: Line of each name that it defines or imports.
        everything: It imports all names of another module, so that it may
            define any.
        models: Names of its Model subclasses, in order.
        error: Why it cannot be imported, in one line; or nothing.
    """

    summary: str = ""
    lines: dict[str, int] = dataclasses.field(default_factory=dict)
    everything: bool = False
    models: tuple[str, ...] = ()
    error: str = ""

    def contract(self) -> dict[str, int]:
        """Returns the line of each name of the contract, as written."""
        written = [name for names in _NEEDED.values() for name in names]
        return {
            name: self.lines[name]
            for name in (*written, *_OPTIONAL)
            if name in self.lines
        }

    def given(self) -> list[str]:
        """Returns the needed names of the contract that are there."""
        return [
            name
            for name, names in _NEEDED.items()
            if any(each in self.lines for each in names)
        ]

    def missing(self) -> list[str]:
        """Returns the needed names of the contract that are not there."""
        given = self.given()
        return [name for name in _NEEDED if name not in given]


def read_outline(path: str, root: str) -> Outline:
    """Reads a module's source.

    Args:
        path: Its file.
        root: The zoo's folder.
    """
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read())
    except OSError as error:
        return Outline(error=f"cannot be read: {error.strerror}")
    except SyntaxError as error:
        return Outline(error=f"line {error.lineno}: {error.msg}")
    except ValueError as error:
        return Outline(error=str(error))
    lines: dict[str, int] = {}
    for statement in tree.body:
        for name in bound(statement):
            lines[name] = statement.lineno
    return Outline(
        summary=(ast.get_docstring(tree) or "").partition("\n")[0],
        lines=lines,
        everything=lines.pop("*", None) is not None,
        models=tuple(
            each.name
            for each in tree.body
            if isinstance(each, ast.ClassDef) and _is_model(each)
        ),
        error=_import_error(tree.body, path, root),
    )


def _is_model(statement: ast.ClassDef) -> bool:
    bases = [ast.unparse(base) for base in statement.bases]
    return any(base.endswith("Model") for base in bases)


def _import_error(body: list[ast.stmt], path: str, root: str) -> str:
    """Returns which module that is imported is not there."""
    for statement in body:
        if isinstance(statement, ast.Import):
            names = [alias.name for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom):
            names = [statement.module or ""]
        else:
            continue
        level = getattr(statement, "level", 0)
        for name in names:
            if not _is_there(name.split("."), level, path, root):
                shown = "." * level + name
                return f"line {statement.lineno}: no module {shown!r}"
    return ""


def _is_there(parts: list[str], level: int, path: str, root: str) -> bool:
    folder = os.path.dirname(path)
    if level:
        for _ in range(level - 1):
            folder = os.path.dirname(folder)
        return _holds(folder, parts)
    if parts[0] in sys.stdlib_module_names:
        return True
    # Where an import of the zoo looks; see `Location.load`.
    if any(
        _holds(each, parts[:1])
        for each in (folder, root, os.path.dirname(root))
    ):
        return True
    try:
        return importlib.util.find_spec(parts[0]) is not None
    except (ImportError, ValueError):
        return False


def _holds(folder: str, parts: list[str]) -> bool:
    base = os.path.join(folder, *parts)
    return os.path.isdir(base) or os.path.isfile(base + ".py")
