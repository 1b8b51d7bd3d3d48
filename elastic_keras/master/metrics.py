"""A job's state over HTTP, for Prometheus."""

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from elastic_keras.monitoring import job_view, prometheus
from elastic_keras.monitoring.metrics_server import MetricsServer

if TYPE_CHECKING:
    from elastic_keras.master.job import Job

_LOGGER = logging.getLogger(__name__)
_PATIENCE = 5.0


@contextlib.contextmanager
def served(job: "Job", port: int) -> Iterator[None]:
    """Serves a job's metrics until the context ends.

    Args:
        job: The job; it belongs to the running event loop.
        port: The port; 0 serves nothing.

    Raises:
        ConfigError: The port cannot be used.
    """
    if not port:
        yield
        return
    loop = asyncio.get_running_loop()

    async def text() -> str:
        return prometheus.render(
            job_view.of_description(job.job_dir, job.describe())
        )

    def render() -> str:
        # Only the event loop's thread may look at the job.
        return asyncio.run_coroutine_threadsafe(text(), loop).result(_PATIENCE)

    server = MetricsServer(port, prometheus.CONTENT_TYPE, render)
    server.start()
    _LOGGER.info("Metrics at %s", server.url)
    try:
        yield
    finally:
        server.close()
