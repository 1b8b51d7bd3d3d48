"""`elastic_keras snapshots`: lists, verifies and shows snapshots."""

import os
from collections.abc import Callable, Sequence
from typing import Any

from elastic_keras.cluster import exits
from elastic_keras.config import ConfigError
from elastic_keras.master import state_file
from elastic_keras.snapshots.errors import SnapshotError
from elastic_keras.snapshots.folder import SnapshotFolder
from elastic_keras.snapshots.snapshot import MANIFEST, Snapshot

# Reads flags: see `cli._parse`.
Parse = Callable[..., dict[str, Any] | None]
_HELP = """elastic_keras snapshots list|verify|show DIR

  list    one line for each snapshot of a job directory
  verify  reads every byte; exit code 1 if one is torn or corrupt
  show    what a snapshot holds (of a job directory: its newest one)

  DIR is a job directory or one snapshot of it."""


def run(given: Sequence[str], parse: Parse) -> int:
    """Runs `snapshots`.

    Args:
        given: The arguments after it.
        parse: Reads a command's flags.

    Returns:
        The exit code: 1 where `verify` found a bad snapshot.

    Raises:
        ConfigError: Wrong use, or no snapshot.
    """
    words = [word for word in given if not word.startswith("-")]
    if len(words) < len(given) and parse("snapshots", given, ()) is None:
        print(_HELP)
        return exits.DONE
    if len(words) != 2 or words[0] not in _ACTIONS:
        raise ConfigError(
            "Say what to do with which folder: elastic_keras snapshots "
            f"list|verify|show DIR. Received: {' '.join(given)!r}"
        )
    paths = _paths(words[1])
    if not paths:
        raise SnapshotError(
            f"There is no snapshot to read. Received: {words[1]!r}"
        )
    return _ACTIONS[words[0]](paths)


def _paths(folder: str) -> list[str]:
    if os.path.isfile(os.path.join(folder, MANIFEST)):
        return [folder]
    return [str(path) for path in SnapshotFolder(folder).all()]


def _list(paths: Sequence[str]) -> int:
    for path in paths:
        try:
            snapshot = Snapshot(path)
        except SnapshotError as error:
            print(f"{path}  unreadable: {error}")
            continue
        print(
            f"{path}  step {snapshot.manifest.step}  "
            f"{snapshot.num_shards} shards  {snapshot.nbytes:,} bytes"
        )
    return exits.DONE


def _verify(paths: Sequence[str]) -> int:
    code = exits.DONE
    for path in paths:
        try:
            Snapshot(path).check()
            state_file.read(path)
        except ConfigError as error:
            print(f"{path}  bad: {error}")
            code = exits.USER_ERROR
        else:
            print(f"{path}  good")
    return code


def _show(paths: Sequence[str]) -> int:
    path = paths[-1]
    snapshot = Snapshot(path)
    manifest = snapshot.manifest
    print(f"{path}  step {manifest.step}, epoch {manifest.epoch}")
    for position, table in enumerate(snapshot.signature.tables):
        rows = snapshot.rows(position)
        print(f"  table {table.name}: {rows:,} rows of {table.dim}")
    for variable in snapshot.signature.dense:
        print(f"  dense {variable.name}: {tuple(variable.shape)}")
    state = state_file.read(path)
    if state is not None and state["flow"] is not None:
        epochs = state["flow"]["tasks"]["epochs"]
        records = sum(epoch["counts"]["records"] for epoch in epochs)
        print(f"  data position: {records:,} records in finished tasks")
    return exits.DONE


_ACTIONS: dict[str, Callable[[Sequence[str]], int]] = {
    "list": _list,
    "verify": _verify,
    "show": _show,
}
