"""How a job ends."""

import logging

from elastic_keras.config import ConfigError
from elastic_keras.wire.errors import RpcError
from elastic_keras.zoo.errors import UserCodeError, user_traceback

_LOGGER = logging.getLogger(__name__)


class JobEnd(Exception):  # noqa: N818 - an end, which may be as wished
    """The job is over before its training is.

    Args:
        phase: `failed` or `stopped`.
        message: The user's traceback, or the reason.
        exit_code: 1 for the user's exception or a broken promise of ours,
            2 for wrong use or input.
    """

    def __init__(self, phase: str, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.phase = phase
        self.message = message
        self.exit_code = exit_code


def failed(message: str, exit_code: int = 1) -> JobEnd:
    """Returns the end of a job that failed."""
    return JobEnd("failed", message, exit_code)


def outcome_of(error: BaseException | None) -> JobEnd:
    """Returns the end of a job whose work is over.

    Args:
        error: What ended it; `None` where it came to its own end.
    """
    if error is None:
        return JobEnd("succeeded", "", 0)
    if isinstance(error, JobEnd):
        return error
    if isinstance(error, ConfigError):
        return failed(str(error), 2)
    if isinstance(error, UserCodeError):
        return failed(error.traceback_text)
    if isinstance(error, RpcError):
        return failed(f"A shard refused the master: {error}")
    _LOGGER.error("The master failed", exc_info=error)
    return failed(user_traceback(error))
