"""New modules: a template under a name of the user's, with data for it."""

import dataclasses
import importlib
import keyword
import os
import pathlib
import sys

from elastic_keras.config import ConfigError

TEMPLATES = ("ranking",)
_FOLDER = pathlib.Path(__file__).parent / "templates"
# What stands in a template for the module's name.
_PLACEHOLDER = "NAME"
_TRAINING_ROWS = 4000
_VALIDATION_ROWS = 1000
# A module in the current folder would be imported in their place.
_TAKEN = {"elastic_keras", "keras", "numpy", "tensorflow"}


@dataclasses.dataclass(frozen=True)
class Started:
    """The files of a new module.

    Args:
        module: The module.
        maker: The script that makes its data.
        training: Records to train on, CSV with a header.
        validation: Records to evaluate on.
    """

    module: pathlib.Path
    maker: pathlib.Path
    training: pathlib.Path
    validation: pathlib.Path


def start(name: str, template: str = TEMPLATES[0]) -> Started:
    """Writes a new module, a maker of data and data.

    Args:
        name: `clicks`, `zoo.clicks` or `zoo/clicks.py`; missing folders are
            made.
        template: One of `TEMPLATES`.

    Raises:
        ConfigError: The name cannot be one, a file is there already or
            cannot be written, or there is no such template.
    """
    if template not in TEMPLATES:
        raise ConfigError(
            f"--template takes one of {', '.join(TEMPLATES)}. "
            f"Received: template={template!r}"
        )
    module = _module_path(name)
    stem = module.stem
    started = Started(
        module=module,
        maker=module.with_name(f"{stem}_data.py"),
        training=module.with_name(f"{stem}.csv"),
        validation=module.with_name(f"{stem}_validation.csv"),
    )
    for path in dataclasses.astuple(started):
        if os.path.lexists(path):
            raise ConfigError(
                # It may be someone's only copy of their data.
                f"{path} is there already; take another name. "
                f"Received: {name!r}"
            )
    try:
        module.parent.mkdir(parents=True, exist_ok=True)
        _write(started, template)
    except OSError as error:
        raise ConfigError(
            f"Cannot write {error.filename or module}: {error.strerror}. "
            f"Received: {name!r}"
        ) from error
    return started


def _module_path(name: str) -> pathlib.Path:
    path = pathlib.Path(name).expanduser()
    if path.suffix == ".py":
        path = path.with_suffix("")
    elif os.sep not in name:
        path = pathlib.Path(*name.split("."))
    stem = path.name
    if not stem.isidentifier() or keyword.iskeyword(stem):
        raise ConfigError(
            "A module's name is made of letters, digits and _, as in "
            f"clicks, zoo.clicks or zoo/clicks.py. Received: {name!r}"
        )
    if stem in _TAKEN or stem in sys.stdlib_module_names:
        raise ConfigError(
            f"Python has a module {stem!r} already; take another name. "
            f"Received: {name!r}"
        )
    return path.with_name(f"{stem}.py")


def _write(started: Started, template: str) -> None:
    stem = started.module.stem
    for path, source in ((started.module, "module"), (started.maker, "data")):
        text = (_FOLDER / template / f"{source}.py").read_text("utf-8")
        path.write_text(text.replace(_PLACEHOLDER, stem), encoding="utf-8")
    maker = importlib.import_module(f"{__package__}.templates.{template}.data")
    maker.write(started.training, _TRAINING_ROWS, seed=0)
    maker.write(started.validation, _VALIDATION_ROWS, seed=1)
