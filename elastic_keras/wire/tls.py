"""Certificates of a job's connections over TCP."""

import dataclasses
import ssl

from elastic_keras.config import ConfigError, WireOptions


@dataclasses.dataclass(frozen=True)
class Tls:
    """What servers show, and whom both sides trust.

    Args:
        certificate: The process's own chain, PEM.
        key: Its private key, PEM.
        authority: Certificates that the other side's must come from, PEM.
        mutual: Whether servers ask callers for theirs too.
        name: The name that servers' certificates must hold; empty for their
            address.
    """

    certificate: bytes
    key: bytes = dataclasses.field(repr=False)
    authority: bytes
    mutual: bool = False
    name: str = ""


def read_tls(options: WireOptions) -> Tls | None:
    """Reads the files that `--tls_cert` and its like name.

    Args:
        options: How bytes travel.

    Returns:
        The certificates; `None` for connections without TLS.

    Raises:
        ConfigError: A file cannot be read, holds no certificate, or the key
            is another certificate's.
    """
    if not options.tls_cert:
        return None
    authority = options.tls_ca or options.tls_cert
    texts = {
        name: _read(name, path)
        for name, path in (
            ("tls_cert", options.tls_cert),
            ("tls_key", options.tls_key),
            ("tls_ca", authority),
        )
    }
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(options.tls_cert, options.tls_key)
    except ssl.SSLError as error:
        raise ConfigError(
            "No certificate and its own private key, in PEM form without a "
            f"password: {error.reason or error}. Received: "
            f"tls_cert={options.tls_cert!r}, tls_key={options.tls_key!r}"
        ) from error
    try:
        context.load_verify_locations(authority)
    except ssl.SSLError as error:
        raise ConfigError(
            f"No certificates in PEM form: {error.reason or error}. "
            f"Received: tls_ca={authority!r}"
        ) from error
    return Tls(
        certificate=texts["tls_cert"],
        key=texts["tls_key"],
        authority=texts["tls_ca"],
        mutual=options.tls_mutual,
        name=options.tls_name,
    )


def _read(name: str, path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise ConfigError(
            f"Cannot read a certificate or key: {error.strerror}. "
            f"Received: {name}={path!r}"
        ) from error
