"""Writes down how a job stands, so that another master can go on."""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from elastic_keras.master import state_file
from elastic_keras.master.threads import in_thread

if TYPE_CHECKING:
    from elastic_keras.master.job import Job

_LOGGER = logging.getLogger(__name__)
_PAUSE = 0.1


class Keeper:
    """Keeps JOB_DIR/master.json up to date.

    What is written is the job at one moment. Where it is older than the
    ledgers, tasks that are done are handed out once more, and the ledgers
    tell that there is nothing left to train in them.

    Args:
        job: The job.
        job_dir: Its directory.
        former: What a former master wrote; `None` if there was none.
    """

    def __init__(
        self, job: "Job", job_dir: str, former: Mapping[str, Any] | None
    ) -> None:
        self._job = job
        self._former = former
        self._job_dir = job_dir
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        # How long former masters took.
        self.seconds = 0.0
        self.training_seconds = 0.0
        # Why the file is not up to date.
        self.trouble = ""

    def state(self) -> dict[str, Any]:
        """Returns how the job stands, as plain data."""
        job = self._job
        identity = {
            "job_id": job.config.job_id,
            "generation": job.generation,
        }
        if self._former is not None:
            # This master has not come so far as to know better.
            return {**self._former, **identity}
        return {
            **identity,
            "planned_for": job.planned_for,
            "seconds": job.seconds,
            "training_seconds": job.training_seconds,
            "workers": [[w.index, w.pid] for w in job.membership.workers],
            "history": job.history.to_state(),
            "flow": job.flow.to_state() if job.flow else None,
        }

    def restore(self, begun: int) -> None:
        """Lets a job that has begun nothing go on where a former one was.

        Args:
            begun: The newest epoch that the shards know of; -1 for none.

        Raises:
            ConfigError: That one had other data.
        """
        job, state = self._job, self._former
        if state is None:
            return
        same_job = state["job_id"] == job.config.job_id
        if same_job:
            self.seconds = state["seconds"]
            self.training_seconds = state["training_seconds"]
            job.dispatch.former.update(
                (index, pid) for index, pid in state["workers"]
            )
        assert job.flow is not None
        job.history.restore(state["history"])
        job.flow.restore(state["flow"], begun=begun, same_job=same_job)
        self._former = None

    def start(self) -> None:
        """Starts to write whatever changes."""
        self._task = asyncio.create_task(self._run())

    async def save(self) -> None:
        """Writes how the job stands now; a failure is logged."""
        # A write that has begun is over before the next one.
        await asyncio.shield(asyncio.ensure_future(self._save()))

    async def _save(self) -> None:
        async with self._lock:
            state = self.state()
            try:
                await in_thread(lambda: state_file.write(self._job_dir, state))
            except OSError as error:
                if not self.trouble:
                    _LOGGER.error(
                        "The master's state cannot be written; training goes "
                        "on: %s",
                        error,
                    )
                self.trouble = f"master.json cannot be written: {error}"
            else:
                self.trouble = ""

    async def close(self) -> None:
        """Writes the last state and stops."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self.save()

    async def _run(self) -> None:
        written = None
        while True:
            now = self._revision()
            if now != written:
                written = now
                await self.save()
                await asyncio.sleep(_PAUSE)
            else:
                await self._job.changed()

    def _revision(self) -> tuple[int, ...]:
        """Returns numbers that change with whatever is worth a write."""
        job = self._job
        training = job.dispatch.training
        return (
            job.membership.joined,
            training.finished if training else 0,
            len(job.history.epochs),
            len(job.history.evaluations),
            int(job.dispatch.stop_wanted),
        )
