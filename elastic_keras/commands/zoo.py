"""`elastic_keras zoo`: list modules, write a new one, check one."""

import dataclasses
import difflib
import functools
import shlex
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from elastic_keras.checking.first_look import find_mistakes
from elastic_keras.checking.quiet import start_tensorflow
from elastic_keras.cluster import exits
from elastic_keras.config import ConfigError, JobConfig, all_options, option
from elastic_keras.help_text import option_lines
from elastic_keras.zoo.errors import UserCodeError
from elastic_keras.zoo.listing import find_modules
from elastic_keras.zoo.starting import TEMPLATES, start

# Reads flags: see `cli._parse`.
Parse = Callable[..., dict[str, Any] | None]
_WIDTH = 80
_INDENT = " " * 4


@dataclasses.dataclass(frozen=True)
class _ListOptions:
    model_zoo: str = option("model_zoo", "Folder of model-zoo modules.")


@dataclasses.dataclass(frozen=True)
class _InitOptions:
    name: str = option("", "The new module, e.g. clicks or zoo/clicks.py.")
    template: str = option(TEMPLATES[0], "What it is made from.")


# Of a job's options, those that a module and its data need.
_CHECK_OPTIONS = [
    (group, field)
    for group, field in all_options()
    if group in ("model", "data")
]


def run(given: Sequence[str], parse: Parse) -> int:
    """Runs `zoo`.

    Args:
        given: The arguments after it.
        parse: Reads a subcommand's flags.

    Returns:
        The exit code.

    Raises:
        ConfigError: Wrong use.
    """
    if not given:
        print(_help(), file=sys.stderr)
        return exits.WRONG_USE
    name = given[0]
    if name in ("--help", "-h", "-help", "help"):
        print(_help())
        return exits.DONE
    if name not in _COMMANDS:
        near = difflib.get_close_matches(name, _COMMANDS, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise ConfigError(
            f"zoo does one of {', '.join(_COMMANDS)}.{hint} "
            f"Received: {name}; see elastic_keras zoo --help"
        )
    options, unnamed, command = _COMMANDS[name]
    values = parse(f"zoo {name}", given[1:], options, unnamed)
    if values is None:
        print(_help())
        return exits.DONE
    return command(values)


def _list(values: dict[str, Any]) -> int:
    folder = values.get("model_zoo", _ListOptions.model_zoo)
    for entry in find_modules(folder):
        print(entry.name)
        if entry.error:
            print(f"{_INDENT}broken: {entry.error}")
        for text in (entry.summary, entry.data and f"Data: {entry.data}"):
            lines = textwrap.wrap(
                text, _WIDTH - len(_INDENT), break_on_hyphens=False
            )
            print("".join(f"{_INDENT}{line}\n" for line in lines), end="")
    print(
        f"\nelastic_keras train --model_zoo={shlex.quote(folder)} "
        "--model_def=NAME ... trains one."
    )
    return exits.DONE


def _init(values: dict[str, Any]) -> int:
    if not values.get("name"):
        raise ConfigError(
            "Name the new module, e.g. elastic_keras zoo init clicks. "
            f"Received: name={values.get('name', '')!r}"
        )
    made = start(values["name"], values.get("template", TEMPLATES[0]))
    print(
        f"{made.module}: the module; its comments say what to change\n"
        f"{made.maker}: makes {made.training.name} and "
        f"{made.validation.name}, which are there already\n"
    )
    module, training, validation = (
        shlex.quote(str(path))
        for path in (made.module, made.training, made.validation)
    )
    print(
        f"elastic_keras zoo check {module} --training_data={training} "
        "--csv_header"
    )
    print(
        f"elastic_keras train --model_def={module} --training_data={training} "
        f"--validation_data={validation} --csv_header"
    )
    return exits.DONE


def _check(values: dict[str, Any]) -> int:
    config = JobConfig.from_options(**values)
    find_mistakes(config)
    start_tensorflow(config)
    # Here, since it imports TensorFlow.
    from elastic_keras.checking.check import check

    try:
        # At once: what follows goes to stderr, or may take its time.
        check(config, functools.partial(print, flush=True))
    except UserCodeError as error:
        print(error.traceback_text.rstrip(), file=sys.stderr)
        return exits.USER_ERROR
    return exits.DONE


_COMMANDS: dict[str, tuple[Any, str, Callable[[dict[str, Any]], int]]] = {
    "list": (dataclasses.fields(_ListOptions), "model_zoo", _list),
    "init": (dataclasses.fields(_InitOptions), "name", _init),
    "check": ([field for _, field in _CHECK_OPTIONS], "model_def", _check),
}


def _help() -> str:
    return "\n".join(
        [
            "elastic_keras zoo list [--model_zoo=FOLDER]",
            "    Lists the modules of a zoo that can be run (default: "
            "model_zoo).",
            f"elastic_keras zoo init NAME [--template={'|'.join(TEMPLATES)}]",
            "    Writes a module to start from, with data to run it on.",
            "elastic_keras zoo check MODULE [--training_data=FILES] "
            "[--flag=value ...]",
            "    Tries a module on one batch, without starting a job.",
            "",
            "Flags of check, as those of train:",
            *option_lines(_CHECK_OPTIONS),
            "",
            "Exit codes: 0 success, 1 an exception of the module's code, "
            "2 wrong use or",
            "input.",
        ]
    )
