"""Exceptions of users' code, told apart from ours."""

import importlib
import os
import traceback

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_IMPORTS = os.path.dirname(os.path.abspath(importlib.__file__)) + os.sep
_LIBRARIES = tuple(
    f"{os.sep}{folder}{os.sep}{name}{os.sep}"
    for folder in ("site-packages", "dist-packages")
    for name in ("tensorflow", "keras")
)


class UserCodeError(Exception):
    """A model-zoo module's own exception.

    Args:
        what: The name that was called, e.g. `dataset_fn`.
        cause: What it raised.
    """

    def __init__(self, what: str, cause: BaseException) -> None:
        super().__init__(f"{what} raised {type(cause).__name__}: {cause}")
        self.what = what
        self.traceback_text = user_traceback(cause)


def user_traceback(error: BaseException) -> str:
    """Returns an exception's traceback with the user's frames only.

    Frames of this package, TensorFlow, Keras and the import system are left
    out, unless there are no others.

    Args:
        error: The exception.
    """
    if isinstance(error, UserCodeError):
        return error.traceback_text
    told = traceback.TracebackException.from_exception(error)
    _strip(told)
    return "".join(told.format())


def _strip(told: traceback.TracebackException) -> None:
    kept = [frame for frame in told.stack if _is_users(frame.filename)]
    if kept:
        told.stack = traceback.StackSummary.from_list(kept)
    for other in (told.__cause__, told.__context__):
        if other is not None:
            _strip(other)


def _is_users(filename: str) -> bool:
    if filename.startswith("<frozen ") or "__autograph_generated" in filename:
        return False
    path = os.path.abspath(filename)
    return not path.startswith((_OURS, _IMPORTS)) and not any(
        name in path for name in _LIBRARIES
    )
