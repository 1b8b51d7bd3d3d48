"""Exceptions of users' code, told apart from ours."""

import os
import re
import sysconfig
import traceback

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# What an installation makes for the command; it lies in any `bin` folder.
_COMMAND = os.sep + "elastic_keras"
_STANDARD = os.path.abspath(sysconfig.get_paths()["stdlib"]) + os.sep
# What Keras and TensorFlow are made of; other packages may be the user's.
_LIBRARIES = tuple(
    f"-packages{os.sep}{name}{os.sep}"
    for name in (
        "absl",
        "keras",
        "numpy",
        "optree",
        "tensorflow",
        "tree",
        "wrapt",
    )
)

TRACEBACK_PREFIX = "Traceback (most recent call last):"


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

    Frames of this package, TensorFlow, Keras and the standard library are
    left out, unless there are no others. An error of a TensorFlow kernel was
    not raised by any of them: it says itself where its node was defined.

    Args:
        error: The exception.
    """
    if isinstance(error, UserCodeError):
        return error.traceback_text
    told = traceback.TracebackException.from_exception(error)
    of_kernel = type(error).__module__.startswith("tensorflow.")
    # A file that Python cannot read has no frame: the error names its line.
    unread = isinstance(error, SyntaxError)
    _strip(told, empty=of_kernel or unread)
    text = "".join(told.format())
    if unread and not text.startswith(TRACEBACK_PREFIX):
        # By it the error is found in a log.
        text = f"{TRACEBACK_PREFIX}\n{text}"
    return _with_users_definitions(text) if of_kernel else text


def _strip(told: traceback.TracebackException, *, empty: bool = False) -> None:
    kept = [frame for frame in told.stack if is_users(frame.filename)]
    if kept or empty:
        told.stack = traceback.StackSummary.from_list(kept)
    for other in (told.__cause__, told.__context__):
        if other is not None:
            _strip(other, empty=empty)


# A line of the stack with which TensorFlow says where a node was defined.
_DEFINED = re.compile(r'^  File "([^"]+)", line \d+, in .*\n\n?', re.MULTILINE)
_DEFINITION = "Detected at node"


def _with_users_definitions(text: str) -> str:
    """Returns a kernel's error with the user's lines of its definition."""
    before, found, after = text.partition(_DEFINITION)
    after = _DEFINED.sub(lambda m: m[0] if is_users(m[1]) else "", after)
    return before + found + after


def defined_by_user(error: BaseException) -> bool:
    """Whether the user's own lines made the node whose kernel failed.

    Args:
        error: A `tf.errors.OpError`.
    """
    _, _, after = str(error).partition(_DEFINITION)
    return any(is_users(found[1]) for found in _DEFINED.finditer(after))


def is_users(filename: str) -> bool:
    """Whether a traceback's file is the user's code.

    Args:
        filename: As a frame's code names it.
    """
    generated = filename.startswith("<") and not filename.startswith("<ipython")
    if generated or "__autograph_generated" in filename:
        return False
    path = os.path.abspath(filename)
    if path.startswith(_OURS) or path.endswith(_COMMAND):
        return False
    if any(name in path for name in _LIBRARIES):
        return False
    # Installed packages may lie inside the standard library's folder.
    return not path.startswith(_STANDARD) or "-packages" in path


def has_users_frame(error: BaseException) -> bool:
    """Whether the user's code was running when an exception was raised.

    Args:
        error: The exception.
    """
    return any(
        is_users(frame.filename)
        for frame in traceback.extract_tb(error.__traceback__)
    )
