"""The option --profile_steps."""

from elastic_keras.config import ConfigError


def profiled_steps(text: str) -> tuple[int, int] | None:
    """Reads --profile_steps.

    Args:
        text: `a,b`: the first and the last step, counted from 1.

    Returns:
        The two numbers; `None` where nothing is to be profiled.

    Raises:
        ConfigError: It is something else.
    """
    if not text:
        return None
    try:
        first, last = (int(part) for part in text.split(","))
    except ValueError:
        first, last = 0, 0
    if not 1 <= first <= last:
        raise ConfigError(
            "--profile_steps takes the first and the last step, counted from "
            f"1, e.g. 20,30. Received: profile_steps={text!r}"
        )
    return first, last
