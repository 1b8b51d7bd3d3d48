"""Snapshots of a job: the shards write, the master makes them one."""

import json
import pathlib
from collections.abc import Callable

from elastic_keras.config import JobConfig
from elastic_keras.master.shards import ShardCalls
from elastic_keras.master.threads import in_thread
from elastic_keras.signature import ModelSignature
from elastic_keras.snapshots.folder import SnapshotFolder
from elastic_keras.snapshots.manifest import Manifest, ShardEntry
from elastic_keras.wire.proto import ps_pb2


class JobSnapshots:
    """Takes a job's snapshots.

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

    async def take(self, *, step: int, epoch: int) -> pathlib.Path:
        """Takes a snapshot; call it only while no step is under way.

        Args:
            step: Optimizer updates made.
            epoch: Epochs begun.

        Returns:
            Its path.

        Raises:
            OSError: It cannot be written here.
            RpcError: A shard cannot write its part.
        """
        place = await in_thread(lambda: self._folder.begin(step))
        replies = await self._shards.snapshot(place.name)
        return await in_thread(self._commit(place, replies, step, epoch))

    def _commit(
        self,
        place: pathlib.Path,
        replies: list[ps_pb2.SnapshotReply],
        step: int,
        epoch: int,
    ) -> Callable[[], pathlib.Path]:
        manifest = Manifest(
            job_id=self._config.job_id,
            step=step,
            epoch=epoch,
            signature=ModelSignature.from_json(replies[0].signature),
            config=json.loads(self._config.to_json()),
            shards=tuple(ShardEntry.from_json(r.shard) for r in replies),
        )
        return lambda: self._folder.commit(place, manifest)
