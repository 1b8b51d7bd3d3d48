"""The names that a model-zoo module may leave out, and near misses of them."""

import difflib
from collections.abc import Iterable

_OPTIONAL = (
    "eval_metrics_fn",
    "callbacks",
    "custom_data_reader",
    "prediction_outputs_processor",
)
_ALIASES = {"PredictionOutputsProcessor": "prediction_outputs_processor"}
# At which likeness a name is taken for another: `make_callbacks` is one,
# `feedback` is none.
_CUTOFF = 0.75


def near_misses(defined: Iterable[str]) -> dict[str, str]:
    """Returns names that look like optional ones of the contract.

    A needed name that is misspelled is missing; an optional one would do
    nothing, without a word.

    Args:
        defined: Names that a module defines itself.

    Returns:
        What may be meant, by the name that was written.
    """
    names = {_ALIASES.get(name, name) for name in defined}
    others = sorted(
        name
        for name in names
        if name not in _OPTIONAL and not name.startswith("_")
    )
    found: dict[str, str] = {}
    for meant in _OPTIONAL:
        if meant not in names:
            near = difflib.get_close_matches(meant, others, 1, _CUTOFF)
            found.update(dict.fromkeys(near, meant))
    return found
