"""How a job ends early."""


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
