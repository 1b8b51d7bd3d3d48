"""What heartbeats say about speed, loss and latency."""

import collections
import dataclasses
from collections.abc import Mapping

from elastic_keras.wire.proto import master_pb2


@dataclasses.dataclass
class Latency:
    """Calls since the last look.

    Args:
        count: Number of calls.
        seconds: Their time in all.
        max_seconds: The longest one's.
        bytes: What they carried.
    """

    count: int = 0
    seconds: float = 0.0
    max_seconds: float = 0.0
    bytes: int = 0

    def add(self, stats: master_pb2.LatencyStats) -> None:
        """Adds what a heartbeat reports."""
        self.count += stats.count
        self.seconds += stats.seconds
        self.max_seconds = max(self.max_seconds, stats.max_seconds)
        self.bytes += stats.bytes


@dataclasses.dataclass
class Interval:
    """What a worker did since the last look.

    Its seconds are those that its heartbeats tell of: they do not end when
    one looks.
    """

    seconds: float = 0.0
    steps: int = 0
    examples: int = 0
    loss_sum: float = 0.0
    pull: Latency = dataclasses.field(default_factory=Latency)
    push: Latency = dataclasses.field(default_factory=Latency)


class HeartbeatStats:
    """Adds up the heartbeats of all workers.

    Args:
        window: Seconds over which the present speed is taken.
        settling: Seconds of training after which that is worth a forecast.
    """

    def __init__(self, window: float = 10.0, settling: float = 5.0) -> None:
        self._window = window
        self._settling = settling
        self._recent: collections.deque[tuple[float, int, int, float]] = (
            collections.deque()
        )
        self._intervals: dict[int, Interval] = {}
        self._metrics: dict[int, dict[str, float]] = {}
        # When the training began that the present speed is taken over.
        self._since: float | None = None
        self.steps = 0
        self.examples = 0
        self.loss: float | None = None

    @property
    def metrics(self) -> dict[str, float]:
        """Running training metrics: means over the workers."""
        sums: dict[str, list[float]] = collections.defaultdict(list)
        for values in self._metrics.values():
            for name, value in values.items():
                sums[name].append(value)
        return {name: sum(v) / len(v) for name, v in sums.items()}

    def add(
        self, index: int, beat: master_pb2.HeartbeatRequest, now: float
    ) -> None:
        """Takes a heartbeat.

        Args:
            index: The worker's index.
            beat: What it says.
            now: The time.
        """
        interval = self._intervals.setdefault(index, Interval())
        interval.seconds += beat.seconds
        interval.steps += beat.steps
        interval.examples += beat.examples
        interval.loss_sum += beat.loss_sum
        interval.pull.add(beat.pull)
        interval.push.add(beat.push)
        self.steps += beat.steps
        self.examples += beat.examples
        if beat.metrics:
            self._metrics[index] = dict(beat.metrics)
        if beat.steps:
            if self._since is None:
                # What it reports was done since the heartbeat before it.
                self._since = now - beat.seconds
            self._recent.append((now, beat.steps, beat.examples, beat.loss_sum))
            self._forget(now)
            steps = sum(entry[1] for entry in self._recent)
            self.loss = sum(entry[3] for entry in self._recent) / steps

    def rest(self) -> None:
        """Takes note that nobody trains: the speed is taken anew after."""
        self._recent.clear()
        self._since = None

    def lose(self, index: int) -> None:
        """Forgets the running metrics of a worker that is gone."""
        self._metrics.pop(index, None)

    def examples_per_second(self, now: float) -> float:
        """Returns the present speed of all workers."""
        self._forget(now)
        if self._since is None or not self._recent:
            return 0.0
        since = max(self._since, now - self._window)
        examples = sum(entry[2] for entry in self._recent)
        return examples / max(now - since, 1.0)

    def settled(self, now: float) -> bool:
        """Whether training went on long enough to tell its speed."""
        return self._since is not None and now - self._since >= self._settling

    def take(self) -> Mapping[int, Interval]:
        """Returns what each worker index did since the last `take`."""
        taken, self._intervals = self._intervals, {}
        return taken

    def _forget(self, now: float) -> None:
        while self._recent and self._recent[0][0] < now - self._window:
            self._recent.popleft()
