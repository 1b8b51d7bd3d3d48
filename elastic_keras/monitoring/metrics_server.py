"""Serves a text at /metrics over HTTP, on loopback."""

import http.server
import socketserver
import threading
from collections.abc import Callable
from concurrent import futures
from http import HTTPStatus

from elastic_keras.config import ConfigError

_HOST = "127.0.0.1"
_PATH = "/metrics"


class MetricsServer:
    """An HTTP server in a thread of its own.

    Args:
        port: Its port; 0 takes a free one.
        content_type: Type of the text.
        render: Makes the text, or raises `TimeoutError`; called by several
            threads.

    Raises:
        ConfigError: The port cannot be used.
    """

    def __init__(
        self, port: int, content_type: str, render: Callable[[], str]
    ) -> None:
        handler = _handler(content_type, render)
        try:
            self._server = _Server((_HOST, port), handler)
        except OSError as error:
            raise ConfigError(
                f"Port {port} cannot be used: {error.strerror}; name another "
                "with --metrics_port, or 0 for none. "
                f"Received: metrics_port={port}"
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="metrics", daemon=True
        )

    @property
    def url(self) -> str:
        """Where the text is."""
        return f"http://{_HOST}:{self._server.server_address[1]}{_PATH}"

    def start(self) -> None:
        """Begins to answer."""
        self._thread.start()

    def close(self) -> None:
        """Gives the port back."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()


class _Server(socketserver.ThreadingTCPServer):
    # A port in TIME_WAIT is free.
    allow_reuse_address = True
    daemon_threads = True


def _handler(
    content_type: str, render: Callable[[], str]
) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        """Answers one request."""

        def do_GET(self) -> None:
            """Sends the text."""
            if self.path.partition("?")[0] != _PATH:
                self.send_error(HTTPStatus.NOT_FOUND, f"See {_PATH}")
                return
            try:
                body = render().encode()
            except (TimeoutError, futures.TimeoutError):
                self.send_error(HTTPStatus.SERVICE_UNAVAILABLE)
                return
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing: a scrape every few seconds is no news."""

    return Handler
