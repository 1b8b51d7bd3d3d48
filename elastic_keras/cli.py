"""The `elastic_keras` command."""

import dataclasses
import difflib
import platform
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import metadata
from typing import TYPE_CHECKING, Any

from absl import flags

from elastic_keras._version import __version__
from elastic_keras.cluster import exits
from elastic_keras.config import ConfigError, all_options
from elastic_keras.help_text import JOB_COMMANDS, command_help, overview

if TYPE_CHECKING:
    from elastic_keras.cluster.launcher import JobOutcome


@dataclasses.dataclass(frozen=True)
class Command:
    """A subcommand.

    Args:
        summary: One line for the overview.
        run: Gets the arguments after the subcommand; returns an exit code.
    """

    summary: str
    run: Callable[[Sequence[str]], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command.

    Args:
        arguments: What follows the program's name.

    Returns:
        0 for success, 1 for the user's own exception, 2 for wrong use.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _dispatch(given)
    except ConfigError as error:
        print(f"elastic_keras: error: {error}", file=sys.stderr)
        return exits.WRONG_USE


def _dispatch(given: list[str]) -> int:
    if not given:
        print(_overview(), file=sys.stderr)
        return exits.WRONG_USE
    name = _ALIASES.get(given[0], given[0])
    if name not in COMMANDS:
        raise ConfigError(
            f"Unknown command.{_nearest(name, COMMANDS)} "
            f"Received: {name}; see elastic_keras help"
        )
    return COMMANDS[name].run(given[1:])


def _train(given: Sequence[str]) -> int:
    values = _parse("train", given)
    if values is None:
        print(command_help("train"))
        return exits.DONE
    # Here, so that help and version answer at once.
    from elastic_keras.api import run_training
    from elastic_keras.resuming import training_config

    return _ended(run_training(training_config(values)))


def _read(command: str, given: Sequence[str]) -> int:
    values = _parse(command, given)
    if values is None:
        print(command_help(command))
        return exits.DONE
    from elastic_keras.api import run_reading
    from elastic_keras.trained import config_for

    return _ended(run_reading(config_for(command, values)))


def _evaluate(given: Sequence[str]) -> int:
    return _read("evaluate", given)


def _predict(given: Sequence[str]) -> int:
    return _read("predict", given)


def _export(given: Sequence[str]) -> int:
    values = _parse("export", given)
    if values is None:
        print(command_help("export"))
        return exits.DONE
    from elastic_keras.api import run_export
    from elastic_keras.trained import export_config

    return _ended(run_export(export_config(values)))


def _ended(outcome: "JobOutcome") -> int:
    """Says what went wrong, if anything; returns the exit code."""
    if outcome.error:
        wrong_use = outcome.exit_code == exits.WRONG_USE
        prefix = "elastic_keras: error: " if wrong_use else ""
        print(f"{prefix}{outcome.error}", file=sys.stderr)
    return outcome.exit_code


def _zoo(given: Sequence[str]) -> int:
    from elastic_keras.commands.zoo import run

    return run(given, _parse)


def _status(given: Sequence[str]) -> int:
    from elastic_keras.commands.status import run

    return run(given, _parse)


def _scale(given: Sequence[str]) -> int:
    from elastic_keras.commands.scale import run

    return run(given, _parse)


def _snapshots(given: Sequence[str]) -> int:
    from elastic_keras.commands.snapshots import run

    return run(given, _parse)


def _inspect(given: Sequence[str]) -> int:
    from elastic_keras.commands.inspect import run

    return run(given, _parse)


def _version(given: Sequence[str]) -> int:
    versions = [f"elastic_keras {__version__}"]
    for name in ("tensorflow", "keras"):
        try:
            versions.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            versions.append(f"{name} not installed")
    versions.append(f"Python {platform.python_version()}")
    print(", ".join(versions))
    return exits.DONE


def _help(given: Sequence[str]) -> int:
    if given and given[0] in (*JOB_COMMANDS, *_WITH_HELP):
        return COMMANDS[given[0]].run(["--help"])
    print(_overview())
    return exits.DONE


def _overview() -> str:
    return overview({name: each.summary for name, each in COMMANDS.items()})


COMMANDS: dict[str, Command] = {
    "train": Command("Train a model-zoo module.", _train),
    "evaluate": Command("Evaluate a trained model.", _evaluate),
    "predict": Command("Predict with a trained model.", _predict),
    "export": Command("Export a trained model to serve it.", _export),
    "status": Command("Watch a running job.", _status),
    "scale": Command("Give a running job more or fewer workers.", _scale),
    "snapshots": Command("List, verify or show snapshots.", _snapshots),
    "inspect": Command("Look into a trained model's tables.", _inspect),
    "zoo": Command("List modules, write a new one, or check one.", _zoo),
    "help": Command("Show this, or the help of a command.", _help),
    "version": Command("Show versions.", _version),
}
_WITH_HELP = ("status", "scale", "snapshots", "inspect", "zoo")
_ALIASES = dict.fromkeys(("--help", "-h", "-help", "--helpfull"), "help") | {
    "--version": "version"
}


def _parse(
    command: str,
    given: Sequence[str],
    options: Iterable[dataclasses.Field[Any]] | None = None,
    unnamed: str = "",
) -> dict[str, Any] | None:
    """Reads a command's flags.

    Args:
        command: Its name.
        given: The arguments after it.
        options: The options that it takes; `None` for those of a job.
        unnamed: The option whose value may stand without its name.

    Returns:
        The values of the flags that were given; `None` for `--help`.

    Raises:
        ConfigError: An unknown flag, a bad value, a stray argument.
    """
    if options is None:
        options = [field for _, field in all_options(command)]
    known = _flag_values(options)
    known.set_gnu_getopt(bool(unnamed))
    if any(each in ("--help", "-h", "-help", "--helpfull") for each in given):
        return None
    try:
        rest = known([command, *given])[1:]
    except flags.UnrecognizedFlagError as error:
        raise ConfigError(
            f"Unknown flag.{_nearest(error.flagname, known, '--')} "
            f"Received: --{error.flagname}; see elastic_keras {command} "
            "--help"
        ) from error
    except flags.IllegalFlagValueError as error:
        raise ConfigError(_bad_value(str(error))) from error
    except flags.Error as error:
        raise ConfigError(str(error).removeprefix("ERROR:: ")) from error
    values = {name: known[name].value for name in known if known[name].present}
    if rest and unnamed and unnamed not in values:
        values[unnamed] = rest.pop(0)
    if rest:
        raise ConfigError(
            f"Flags look like --name=value. Received: {' '.join(rest)!r}"
        )
    return values


def _flag_values(
    options: Iterable[dataclasses.Field[Any]],
) -> flags.FlagValues:
    """Returns a flag for each option."""
    known = flags.FlagValues()
    define: dict[type, Callable[..., Any]] = {
        bool: flags.DEFINE_bool,
        int: flags.DEFINE_integer,
        float: flags.DEFINE_float,
        str: flags.DEFINE_string,
    }
    for field in options:
        define[type(field.default)](
            field.name,
            field.default,
            field.metadata["help"],
            flag_values=known,
        )
    return known


def _bad_value(message: str) -> str:
    """Returns our words for absl's `flag --name=value: reason`."""
    found = re.match(r"flag --(\w+)=(.*?): ", message, re.DOTALL)
    if found is None:
        return message
    name, value = found.groups()
    kinds = {field.name: type(field.default) for _, field in all_options()}
    wanted = _KINDS.get(kinds.get(name, str), "another value")
    return f"--{name} takes {wanted}. Received: {name}={value!r}"


_KINDS: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
}


def _switches() -> list[str]:
    """Returns the names of the boolean flags."""
    return [
        field.name
        for _, field in all_options()
        if isinstance(field.default, bool)
    ]


def _nearest(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Returns ` Did you mean ...?`, or nothing if no name is near."""
    plain = name.lstrip("-").replace("-", "_")
    found = difflib.get_close_matches(plain, list(known), n=1)
    switch = plain.removeprefix("no_")
    if prefix and switch != plain:
        # The opposite of a boolean flag has no dash after its `no`.
        near = difflib.get_close_matches(switch, _switches(), n=1)
        found = [f"no{each}" for each in near] or found
    return f" Did you mean {prefix}{found[0]}?" if found else ""


if __name__ == "__main__":
    sys.exit(main())
