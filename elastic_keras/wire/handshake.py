"""What two processes check before any data flows between them."""

import json
from typing import Any

from elastic_keras.wire.errors import Refused

# Changes whenever a message changes its meaning.
PROTOCOL_VERSION = 1


def check_join(
    job_id: str,
    protocol_version: int,
    *,
    expected_job_id: str,
    signature: str = "",
    expected_signature: str = "",
) -> None:
    """Checks the caller of a `Join`.

    Args:
        job_id: The caller's job.
        protocol_version: The caller's version of the protocol.
        expected_job_id: This process's job.
        signature: The caller's model signature as JSON, empty for none.
        expected_signature: The one this process has, empty for none yet.

    Raises:
        Refused: FAILED_PRECONDITION; the message says what differs.
    """
    if job_id != expected_job_id:
        raise Refused(
            "FAILED_PRECONDITION",
            f"job_id: this process belongs to job {expected_job_id!r}. "
            f"Received: job_id={job_id!r}",
        )
    if protocol_version != PROTOCOL_VERSION:
        raise Refused(
            "FAILED_PRECONDITION",
            "protocol_version: this process speaks version "
            f"{PROTOCOL_VERSION}; install the same elastic_keras everywhere. "
            f"Received: protocol_version={protocol_version}",
        )
    if signature and expected_signature and signature != expected_signature:
        raise Refused(
            "FAILED_PRECONDITION",
            "signature: the model differs from the one that the job runs: "
            + difference(expected_signature, signature),
        )


def difference(expected: str, received: str) -> str:
    """Says where two signatures differ first, with both values.

    Args:
        expected: A signature as JSON.
        received: Another one.
    """
    try:
        return _first_difference(
            json.loads(expected), json.loads(received), "model"
        )
    except ValueError:
        return f"not JSON. Received: signature={received[:80]!r}"


def _first_difference(expected: Any, received: Any, at: str) -> str:
    """Returns where two JSON values differ first, with both values."""
    if isinstance(expected, dict) and isinstance(received, dict):
        for key in sorted(expected.keys() | received.keys()):
            left, right = expected.get(key), received.get(key)
            if left != right:
                return _first_difference(left, right, f"{at}.{key}")
    if isinstance(expected, list) and isinstance(received, list):
        if len(expected) != len(received):
            return (
                f"{at} has {len(expected)} entries. "
                f"Received: {len(received)} entries"
            )
        for i, (left, right) in enumerate(zip(expected, received, strict=True)):
            if left != right:
                named = left.get("name") if isinstance(left, dict) else None
                label = f"{at}[{i}]" + (f" ({named})" if named else "")
                return _first_difference(left, right, label)
    return f"{at} is {_short(expected)}. Received: {_short(received)}"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 200 else text[:200] + "..."
