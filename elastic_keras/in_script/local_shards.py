"""Shards of a script: processes that start and stop with it."""

import contextlib
import dataclasses
import os
import pathlib
import secrets
import signal
import tempfile
import time

from elastic_keras.cluster.addresses import local_addresses
from elastic_keras.cluster.local import process_environment, python_command
from elastic_keras.cluster.process import Process, ending
from elastic_keras.config import (
    ClusterOptions,
    JobConfig,
    SnapshotOptions,
    StalenessOptions,
)
from elastic_keras.snapshots.folder import SnapshotFolder
from elastic_keras.wire import rpc
from elastic_keras.wire.errors import RpcError
from elastic_keras.wire.proto import ps_pb2, tensor_pb2

_SERVICE = ps_pb2.DESCRIPTOR.services_by_name["ParameterServer"]
_LOOK_SECONDS = 0.2
_GRACE_SECONDS = 3.0


class LocalShards:
    """Shards on this host, without a master.

    They end with `close`, and with this process, however it ends.

    Args:
        count: Number of shards.
        staleness: The bound on staleness.

    Raises:
        RuntimeError: One ended before it was ready.
    """

    def __init__(self, count: int, staleness: StalenessOptions) -> None:
        self._stack = contextlib.ExitStack()
        self._processes: list[Process] = []
        self._members = 0
        # Pushes with a NaN or Inf that were told of.
        self._told = 0
        try:
            self._start(count, staleness)
        except BaseException:
            self.close()
            raise

    def _start(self, count: int, staleness: StalenessOptions) -> None:
        folder = self._stack.enter_context(
            tempfile.TemporaryDirectory(prefix="elastic-keras-")
        )
        self._folder = pathlib.Path(folder)
        config = dataclasses.replace(
            JobConfig(),
            staleness=staleness,
            cluster=ClusterOptions(num_ps=count, job_dir=folder),
            # Shards that end with their script need not come back.
            snapshots=SnapshotOptions(journal=False),
            job_id=secrets.token_hex(8),
        )
        addresses = self._stack.enter_context(local_addresses(config))
        config = dataclasses.replace(config, ps_addresses=addresses.shards)
        (self._folder / "config.json").write_text(config.to_json())
        self.config = config
        self.token = secrets.token_hex(32)
        environment = process_environment(
            os.environ, self.token, addresses.folder
        )
        self._stack.callback(self._end_processes)
        self._processes = [
            Process(
                "ps",
                index,
                python_command("ps", index, self._folder),
                environment,
                self._folder / f"ps-{index}.log",
            )
            for index in range(count)
        ]
        self._clients = [
            rpc.Client(address, _SERVICE, token=self.token)
            for address in addresses.shards
        ]
        for client in self._clients:
            self._stack.callback(client.close)
        for process, client in zip(self._processes, self._clients, strict=True):
            self._await(process, client)

    def begin(self) -> int:
        """Begins a pass of the one worker; returns its member number."""
        self._members += 1
        request = ps_pb2.SetMembersRequest(
            number=self._members, members=[self._members]
        )
        for client in self._clients:
            client.call("SetMembers", request)
        return self._members

    def check_finite(self) -> None:
        """Checks that every gradient since the last check was finite.

        Raises:
            FloatingPointError: Batches were refused.
        """
        statuses = [
            client.call("GetStatus", tensor_pb2.Empty())
            for client in self._clients
        ]
        # Each shard refuses the same batches.
        refused = max(status.nonfinite_pushes for status in statuses)
        found, self._told = refused - self._told, refused
        if found:
            raise FloatingPointError(
                f"{found} batches had a gradient with a NaN or Inf and were "
                "left out. Look at the loss and the inputs, lower the "
                "learning rate or clip gradients"
            )

    def finalize(self) -> None:
        """Ends training: with `use_ema`, parameters become averages."""
        for method in ("Flush", "Finalize"):
            for client in self._clients:
                client.call(method, tensor_pb2.Empty())

    def snapshot(self) -> tuple[pathlib.Path, list[ps_pb2.SnapshotReply]]:
        """Has every shard write its part of a snapshot.

        Returns:
            The folder, which ends with the shards, and what they say.
        """
        place = SnapshotFolder(self._folder).begin(0)
        request = ps_pb2.SnapshotRequest(folder=place.name)
        replies = [
            client.call("Snapshot", request, timeout=None, retry_for=0)
            for client in self._clients
        ]
        return place, replies

    def close(self) -> None:
        """Ends the shards; may be called repeatedly."""
        self._stack.close()

    def _await(self, process: Process, client: rpc.Client) -> None:
        while True:
            try:
                client.call(
                    "GetStatus",
                    tensor_pb2.Empty(),
                    timeout=_LOOK_SECONDS,
                    retry_for=0,
                )
            except RpcError:
                if process.alive:
                    continue
                raise RuntimeError(
                    f"{process.name} {ending(process.wait())}:\n"
                    f"{process.last_words()}"
                ) from None
            return

    def _end_processes(self) -> None:
        for process in self._processes:
            process.signal(signal.SIGTERM)
        deadline = time.monotonic() + _GRACE_SECONDS
        for process in self._processes:
            if not process.ends_within(deadline - time.monotonic()):
                process.signal(signal.SIGKILL)
                process.wait()
            process.close()
