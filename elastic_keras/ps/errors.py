"""Why a shard turns a request away."""


class BadRequestError(ValueError):
    """A request that cannot be right; nothing was changed by it."""


class NotReadyError(RuntimeError):
    """A request that came before what it needs (join, first values)."""


class MemberLeftError(RuntimeError):
    """A pull of a member that the master has taken off the list."""
