"""Shards that live in the test's event loop."""

import collections

from elastic_keras.master.changes import Changes
from elastic_keras.master.shards import Cut
from elastic_keras.master.side_tasks import wait_until
from elastic_keras.signature import ModelSignature, OptimizerSpec
from elastic_keras.snapshots.manifest import FileEntry, ShardEntry
from elastic_keras.wire.proto import ps_pb2


class StandInShards:
    """Ledgers and clocks of shards; pulls wait as `wait` with S says."""

    def __init__(self, count=2, *, max_staleness=0, uses_ema=False):
        self.count = count
        self.changes = Changes()
        self.ledgers = [{} for _ in range(count)]
        self.clocks = [{} for _ in range(count)]
        self.bases = [{} for _ in range(count)]
        self.numbers = [-1] * count
        self.lists = []
        self.blocked = set()
        self.calls = []
        self.nonfinite = [0] * count
        self.log = []
        self.snapshot_error = None
        self.write_error = None
        self.cuts = []
        self.committed = []
        self._max_staleness = max_staleness
        self._uses_ema = uses_ema

    async def join(self):
        self.calls.append("join")

    async def set_members(self, shard, number, members):
        await wait_until(self.changes, lambda: shard not in self.blocked)
        self.lists.append((shard, number, tuple(members)))
        if number <= self.numbers[shard]:
            return
        self.numbers[shard] = number
        clocks, bases = self.clocks[shard], self.bases[shard]
        for member in set(clocks) - set(members):
            del clocks[member]
        least = min(clocks.values(), default=0)
        for member in set(members) - set(clocks):
            clocks[member] = bases[member] = least
        self.changes.notify()

    async def flush(self):
        self.calls.append("flush")
        return self.batches()

    async def finalize(self):
        self.calls.append("finalize")

    async def cut(self, folder):
        self.calls.append(f"snapshot {folder}")
        if self.snapshot_error is not None:
            raise self.snapshot_error
        self.cuts.append([set(ledger) for ledger in self.ledgers])
        return [
            Cut(
                batches=len(ledger),
                examples=sum(ledger.values()),
                ledger_crc32c=hash(frozenset(ledger)) & 0xFFFFFFFF,
                segment=3,
            )
            for ledger in self.ledgers
        ]

    async def written(self, folder):
        if self.write_error is not None:
            raise self.write_error
        return [snapshot_reply(len(ledger)) for ledger in self.ledgers]

    async def commit(self, segments):
        self.calls.append(f"commit {segments}")
        self.committed.append(self.cuts[-1])

    async def progress(self, epoch, task):
        return [
            sum(
                1 << batch for e, t, batch in ledger if (e, t) == (epoch, task)
            ).to_bytes(8, "little")
            for ledger in self.ledgers
        ]

    async def status(self, *, patience=None):
        return [
            ps_pb2.ShardStatus(
                shard=shard,
                version=len(ledger),
                iterations=len(ledger),
                batches=len(ledger),
                examples_by_epoch=self._by_epoch(ledger),
                nonfinite_pushes=self.nonfinite[shard],
                staleness_counts=[len(ledger)],
                uses_ema=self._uses_ema,
                rows=3,
                tables=[ps_pb2.TableStatus(name="items", rows=3, bytes=99)],
            )
            for shard, ledger in enumerate(self.ledgers)
        ]

    def batches(self):
        """Batches that every shard has."""
        return min(map(len, self.ledgers))

    async def pull(self, shard, member, step):
        """Waits as a shard would; False for a member that has left."""
        clocks = self.clocks[shard]
        assert member in self.bases[shard], "a pull before SetMembers"

        def granted():
            if member not in clocks:
                return True
            need = self.bases[shard][member] + step - self._max_staleness
            return min(clocks.values()) >= need

        await wait_until(self.changes, granted)
        return member in clocks

    def push(self, shard, key, examples, member):
        """Applies a batch unless the ledger holds it."""
        new = key not in self.ledgers[shard]
        if new:
            self.ledgers[shard][key] = examples
            self.log.append((shard, key))
        if member in self.clocks[shard]:
            self.clocks[shard][member] += 1
        self.changes.notify()
        return new

    def has(self, key):
        return all(key in ledger for ledger in self.ledgers)

    @staticmethod
    def _by_epoch(ledger):
        counts = collections.Counter()
        for (epoch, _, _), examples in ledger.items():
            counts[epoch] += examples
        return counts


def snapshot_reply(version):
    """Returns what a shard says that holds nothing."""
    dense = FileEntry("dense", 0, 0)
    return ps_pb2.SnapshotReply(
        shard=ShardEntry(version, 0, (), dense, ()).to_json(),
        signature=ModelSignature(0, (OptimizerSpec("sgd", 0.1),)).to_json(),
    )
