"""Snapshots of a job: the shards write, the master makes them one."""

import asyncio
import json
import logging
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from elastic_keras.config import ConfigError, JobConfig
from elastic_keras.master import state_file
from elastic_keras.master.shards import Cut, ShardCalls
from elastic_keras.master.threads import in_thread
from elastic_keras.signature import ModelSignature
from elastic_keras.snapshots.folder import SnapshotFolder
from elastic_keras.snapshots.manifest import Manifest, ShardEntry
from elastic_keras.wire.errors import RpcError
from elastic_keras.wire.proto import ps_pb2

_LOGGER = logging.getLogger(__name__)
# What keeps a snapshot from being written and does not end the training.
_TROUBLE = (OSError, RpcError, ConfigError)


class JobSnapshots:
    """Takes a job's snapshots, one after another.

    Args:
        config: The job.
        job_dir: Its directory.
        shards: The shards.
    """

    def __init__(
        self, config: JobConfig, job_dir: str, shards: ShardCalls
    ) -> None:
        self._config = config
        self._folder = SnapshotFolder(job_dir)
        self._shards = shards
        self._writing: asyncio.Task[None] | None = None
        # Why the newest snapshot is missing; empty where it is there.
        self.trouble = ""
        self.taken = 0

    @property
    def busy(self) -> bool:
        """Whether a snapshot is being written."""
        return self._writing is not None and not self._writing.done()

    async def take(
        self, *, step: int, epoch: int, state: Mapping[str, Any]
    ) -> pathlib.Path:
        """Takes a snapshot; call it only while no step is under way.

        Args:
            step: Optimizer updates made.
            epoch: Epochs begun.
            state: What the master knows of the job.

        Returns:
            Its path.

        Raises:
            OSError: It cannot be written here.
            RpcError: A shard cannot write its part.
            ConfigError: The shards are not at one ledger.
        """
        await self.settle()
        place, cuts = await self._cut(step)
        return await self._complete(place, cuts, step, epoch, state)

    async def begin(
        self, *, step: int, epoch: int, state: Mapping[str, Any]
    ) -> None:
        """Cuts all shards; what they hold is written while training goes on.

        Where that fails, training goes on and `trouble` says why. So it does
        while the snapshot before is still being written.

        Args:
            step: Optimizer updates made.
            epoch: Epochs begun.
            state: What the master knows of the job.
        """
        if self.busy:
            _LOGGER.warning(
                "No snapshot at step %d: the one before is being written",
                step,
            )
            return
        try:
            place, cuts = await self._cut(step)
        except _TROUBLE as error:
            self._failed(step, error)
            return
        self._writing = asyncio.create_task(
            self._write(place, cuts, step, epoch, state)
        )

    async def settle(self) -> None:
        """Waits until nothing is being written."""
        if self._writing is not None:
            await asyncio.wait([self._writing])

    def close(self) -> None:
        """Gives up what is being written."""
        if self._writing is not None:
            self._writing.cancel()

    async def _cut(self, step: int) -> tuple[pathlib.Path, list[Cut]]:
        place = await in_thread(lambda: self._folder.begin(step))
        cuts = await self._shards.cut(place.name)
        ledgers = {(c.batches, c.examples, c.ledger_crc32c) for c in cuts}
        if len(ledgers) > 1:
            raise ConfigError(
                "The shards do not hold the same batches. "
                f"Received: batches={[c.batches for c in cuts]}"
            )
        return place, cuts

    async def _write(
        self,
        place: pathlib.Path,
        cuts: list[Cut],
        step: int,
        epoch: int,
        state: Mapping[str, Any],
    ) -> None:
        try:
            path = await self._complete(place, cuts, step, epoch, state)
        except _TROUBLE as error:
            self._failed(step, error)
            return
        _LOGGER.info("Snapshot: %s", path)

    async def _complete(
        self,
        place: pathlib.Path,
        cuts: list[Cut],
        step: int,
        epoch: int,
        state: Mapping[str, Any],
    ) -> pathlib.Path:
        written = await self._shards.written(place.name)
        path = await in_thread(self._commit(place, written, step, epoch, state))
        self.trouble = ""
        self.taken += 1
        try:
            await self._shards.commit([cut.segment for cut in cuts])
        except RpcError as error:
            _LOGGER.warning("A journal stays as long as it is: %s", error)
        return path

    def _commit(
        self,
        place: pathlib.Path,
        replies: list[ps_pb2.SnapshotReply],
        step: int,
        epoch: int,
        state: Mapping[str, Any],
    ) -> Callable[[], pathlib.Path]:
        manifest = Manifest(
            job_id=self._config.job_id,
            step=step,
            epoch=epoch,
            signature=ModelSignature.from_json(replies[0].signature),
            config=json.loads(self._config.to_json()),
            shards=tuple(ShardEntry.from_json(r.shard) for r in replies),
        )

        def work() -> pathlib.Path:
            state_file.write(place, state)
            path = self._folder.commit(place, manifest)
            try:
                self._folder.keep(self._config.snapshots.keep_snapshots)
            except OSError as error:
                _LOGGER.warning("An old snapshot stays: %s", error)
            return path

        return work

    def _failed(self, step: int, error: BaseException) -> None:
        self.trouble = f"No snapshot at step {step}: {error}"
        _LOGGER.warning("%s; training goes on", self.trouble)
