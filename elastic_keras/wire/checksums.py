"""CRC32C of the bytes on the wire."""

import google_crc32c
import numpy as np

from elastic_keras.wire.errors import WireError


def crc32c(data: bytes | np.ndarray) -> int:
    """Returns the CRC32C of `data`."""
    return int(google_crc32c.value(data))


def check(data: bytes | np.ndarray, expected: int, name: str) -> None:
    """Checks that `data` are the bytes that were sent.

    Args:
        data: The bytes that arrived.
        expected: Their CRC32C as sent.
        name: What they are, for the message.

    Raises:
        WireError: The checksums differ.
    """
    received = crc32c(data)
    if received != expected:
        raise WireError(
            f"{name}: the checksum does not match, the bytes were changed on "
            f"their way. Received: crc32c={received:#010x}, "
            f"announced {expected:#010x}"
        )
