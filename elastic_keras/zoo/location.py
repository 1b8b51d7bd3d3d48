"""Where a model-zoo module is, and how it is imported."""

import ast
import dataclasses
import hashlib
import importlib
import os
import sys
import types

from elastic_keras.config import ConfigError, ModelOptions


@dataclasses.dataclass(frozen=True)
class Location:
    """A module in a model zoo.

    Args:
        root: Folder that its dotted name starts from.
        name: Dotted name.
        path: Its file.
        model: Name in it of the model's function or class.
    """

    root: str
    name: str
    path: str
    model: str = "custom_model"

    def load(self) -> types.ModuleType:
        """Imports the module afresh; its own exceptions pass through.

        It becomes part of a package of its own, so that zoos do not clash
        with one another or with installed packages and relative imports
        work. The zoo's folder and the module's are also searched for plain
        imports, after everything else.
        """
        digest = hashlib.sha256(self.root.encode()).hexdigest()[:8]
        package = f"_elastic_keras_zoo_{digest}"
        for name in list(sys.modules):
            if name == package or name.startswith(package + "."):
                del sys.modules[name]
        holder = types.ModuleType(package)
        holder.__path__ = [self.root]
        sys.modules[package] = holder
        folders = (os.path.dirname(self.path), self.root)
        for folder in (*folders, os.path.dirname(self.root)):
            if folder not in sys.path:
                sys.path.append(folder)
        importlib.invalidate_caches()
        return importlib.import_module(f"{package}.{self.name}")

    def defines(self, name: str) -> bool:
        """Tells, without running the module, whether it defines a name.

        Args:
            name: A name of the contract, e.g. `custom_data_reader`.
        """
        return any(name in bound(each) for each in self._statements())

    def own_names(self) -> set[str]:
        """Returns, without running the module, the names that it defines.

        Imported ones are left out; where it imports all of another module,
        nothing is known.
        """
        statements = self._statements()
        if any("*" in bound(each) for each in statements):
            return set()
        return {
            name
            for each in statements
            if not isinstance(each, (ast.Import, ast.ImportFrom))
            for name in bound(each)
        }

    def _statements(self) -> list[ast.stmt]:
        with open(self.path, "rb") as file:
            try:
                return ast.parse(file.read()).body
            except (SyntaxError, ValueError):
                return []


def locate(model: ModelOptions) -> Location:
    """Finds a module by `--model_zoo` and `--model_def`.

    Args:
        model: `model_def` is a dotted name in the folder `model_zoo`, with
            the model's function or class at its end or without; or the path
            of a `.py` file.

    Raises:
        ConfigError: There is no such module.
    """
    if not model.model_def:
        raise ConfigError(
            "Name a module with --model_def, e.g. --model_def=criteo.deepfm. "
            "Received: model_def=''"
        )
    zoo = os.path.expanduser(model.model_zoo)
    if model.model_zoo and not os.path.isdir(zoo):
        raise ConfigError(
            f"No such folder. Received: model_zoo={model.model_zoo!r}"
        )
    if model.model_def.endswith(".py"):
        return _by_path(model, zoo)
    root = os.path.abspath(zoo)
    whole = model.model_def.split(".")
    for parts, attribute in ((whole, ""), (whole[:-1], whole[-1])):
        path = _module_file(root, parts)
        if path:
            return Location(
                root, ".".join(parts), path, attribute or "custom_model"
            )
    raise ConfigError(
        f"No such module in {model.model_zoo or 'the current folder'}. "
        f"Received: model_def={model.model_def!r}"
    )


def _by_path(model: ModelOptions, zoo: str) -> Location:
    given = os.path.expanduser(model.model_def)
    found = [p for p in (os.path.join(zoo, given), given) if os.path.isfile(p)]
    if not found:
        raise ConfigError(
            f"No such file. Received: model_def={model.model_def!r}"
        )
    path = os.path.abspath(found[0])
    folder, name = os.path.split(path[: -len(".py")])
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder, package = os.path.split(folder)
        name = f"{package}.{name}"
    return Location(folder, name, path)


def _module_file(root: str, parts: list[str]) -> str:
    if not parts or not all(part.isidentifier() for part in parts):
        return ""
    base = os.path.join(root, *parts)
    for path in (base + ".py", os.path.join(base, "__init__.py")):
        if os.path.isfile(path):
            return path
    return ""


def bound(statement: ast.stmt) -> set[str]:
    """Returns the names that a statement of a module binds.

    Args:
        statement: One outside functions and classes.
    """
    if isinstance(
        statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    ):
        return {statement.name}
    if isinstance(statement, ast.Assign):
        return {t.id for t in statement.targets if isinstance(t, ast.Name)}
    if isinstance(statement, ast.AnnAssign):
        target = statement.target
        return {target.id} if isinstance(target, ast.Name) else set()
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return {a.asname or a.name for a in statement.names}
    return set()
