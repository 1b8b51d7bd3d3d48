"""What `elastic_keras --help` prints."""

import dataclasses
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from elastic_keras.config import GROUPS, all_options

_WIDTH = 80
_INDENT = 6

JOB_COMMANDS = {
    "train": """\
elastic_keras train --model_zoo=model_zoo --model_def=criteo.deepfm \\
    --training_data='data/day_*.tsv' --validation_data=data/val.tsv \\
    --num_workers=2 --num_ps=2 --max_staleness=4 --minibatch_size=1024""",
    "evaluate": """\
elastic_keras evaluate --job_dir=runs/deepfm --validation_data=data/val.tsv""",
    "predict": """\
elastic_keras predict --job_dir=runs/deepfm --prediction_data=data/new.tsv \\
    --output=predictions.npz""",
    "export": """\
elastic_keras export --job_dir=runs/deepfm --output=exports/deepfm""",
}


def overview(commands: Mapping[str, str]) -> str:
    """Returns the help of the whole command.

    Args:
        commands: One line for each subcommand, by its name.
    """
    width = max(map(len, commands))
    listed = [f"  {name:<{width}}  {text}" for name, text in commands.items()]
    return "\n".join(
        [
            "elastic_keras: parameter-server training for Keras 3.",
            "",
            "elastic_keras COMMAND [--flag=value ...]",
            "",
            *listed,
            "",
            "For example:",
            "",
            textwrap.indent(JOB_COMMANDS["train"], "  "),
            "",
            "elastic_keras train --help lists the flags.",
        ]
    )


def command_help(command: str) -> str:
    """Returns the help of a subcommand: its flags, group by group.

    Args:
        command: Its name.
    """
    lines = [f"elastic_keras {command} [--flag=value ...]", ""]
    lines += [textwrap.indent(JOB_COMMANDS[command], "  "), ""]
    lines.append("--flagfile=FILE reads flags from a file, one a line.")
    lines += option_lines(all_options(command))
    lines += [
        "",
        "Exit codes: 0 success, 1 an exception of the model's code, 2 wrong "
        "use or",
        "input, 128 plus the signal's number if a signal stopped the job.",
    ]
    return "\n".join(lines)


def option_lines(
    options: Iterable[tuple[str, dataclasses.Field[Any]]],
) -> list[str]:
    """Returns the help of options, group by group.

    Args:
        options: (group name, field) of each, in order.
    """
    lines: list[str] = []
    group_before = ""
    for group, field in options:
        if group != group_before:
            heading = (GROUPS[group].__doc__ or "").splitlines()[0]
            lines += ["", heading, ""]
            group_before = group
        lines += _flag_lines(field)
    return lines


def option_help(options: Iterable[dataclasses.Field[Any]]) -> list[str]:
    """Returns the help of options that are in no group.

    Args:
        options: The options, in order.
    """
    return [line for field in options for line in _flag_lines(field)]


def flag_head(field: dataclasses.Field[Any]) -> str:
    """Returns how a flag is written, e.g. `--num_ps=N`.

    Args:
        field: The option.
    """
    choices, unit = field.metadata["choices"], field.metadata["unit"]
    if isinstance(field.default, bool):
        return f"--[no]{field.name}"
    if choices:
        return f"--{field.name}={'|'.join(choices)}"
    return (
        f"--{field.name}={unit.upper() or _PLACEHOLDERS[type(field.default)]}"
    )


def flag_text(field: dataclasses.Field[Any]) -> str:
    """Returns what a flag is for, and its default.

    Args:
        field: The option.
    """
    unit, text = field.metadata["unit"], field.metadata["help"]
    default = str(field.default).lower() if field.default != "" else ""
    if not default:
        return text
    unit = "" if unit in ("", "batches") else f" {unit}"
    return f"{text} (default: {default}{unit})"


def _flag_lines(field: dataclasses.Field[Any]) -> list[str]:
    indent = " " * _INDENT
    return [
        f"  {flag_head(field)}",
        *textwrap.wrap(
            flag_text(field),
            _WIDTH,
            initial_indent=indent,
            subsequent_indent=indent,
        ),
    ]


_PLACEHOLDERS: dict[type, str] = {
    int: "N",
    float: "X",
    str: "TEXT",
}
