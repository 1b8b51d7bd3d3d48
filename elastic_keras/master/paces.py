"""How fast each worker goes."""

import collections
import dataclasses

from elastic_keras.wire.proto import master_pb2


@dataclasses.dataclass(frozen=True)
class Pace:
    """What one worker did, all in all and in its last seconds.

    Args:
        steps: Steps that it reported.
        examples: Examples in them.
        examples_per_second: Its present speed.
        own_seconds: What a step takes it, without the time that its pulls
            wait for others; 0 where it did none.
        pull_seconds: Mean time of a pull, waiting for the bound included.
        push_seconds: Mean time of a push.
    """

    steps: int = 0
    examples: int = 0
    examples_per_second: float = 0.0
    own_seconds: float = 0.0
    pull_seconds: float = 0.0
    push_seconds: float = 0.0


class Paces:
    """Tells from their heartbeats how fast the workers are.

    Args:
        window: Seconds over which the present speed is taken.
    """

    def __init__(self, window: float = 10.0) -> None:
        self._window = window
        self._recent: dict[
            int, collections.deque[tuple[float, master_pb2.HeartbeatRequest]]
        ] = collections.defaultdict(collections.deque)
        self._steps: collections.Counter[int] = collections.Counter()
        self._examples: collections.Counter[int] = collections.Counter()

    @property
    def indexes(self) -> frozenset[int]:
        """The workers that were heard of."""
        return frozenset(self._recent)

    def add(
        self, index: int, beat: master_pb2.HeartbeatRequest, now: float
    ) -> None:
        """Takes a heartbeat.

        Args:
            index: The worker's index.
            beat: What it says.
            now: The time.
        """
        self._steps[index] += beat.steps
        self._examples[index] += beat.examples
        self._recent[index].append((now, beat))
        self._forget(index, now)

    def rest(self) -> None:
        """Takes note that nobody trains: speeds are taken anew after."""
        for beats in self._recent.values():
            beats.clear()

    def of(self, index: int, now: float) -> Pace:
        """Returns a worker's pace.

        Args:
            index: Its index.
            now: The time.
        """
        if index not in self._recent:
            return Pace()
        self._forget(index, now)
        beats = [beat for _, beat in self._recent[index]]
        seconds = sum(beat.seconds for beat in beats)
        examples = sum(beat.examples for beat in beats)
        return Pace(
            steps=self._steps[index],
            examples=self._examples[index],
            examples_per_second=examples / seconds if seconds > 0 else 0.0,
            own_seconds=_own_seconds(beats, seconds),
            pull_seconds=_mean([beat.pull for beat in beats]),
            push_seconds=_mean([beat.push for beat in beats]),
        )

    def _forget(self, index: int, now: float) -> None:
        beats = self._recent[index]
        while beats and beats[0][0] < now - self._window:
            beats.popleft()


def _own_seconds(
    beats: list[master_pb2.HeartbeatRequest], seconds: float
) -> float:
    steps = sum(beat.steps for beat in beats)
    if not steps:
        return 0.0
    # Under the policy `wait` all are as fast as the slowest. Of its time, a
    # fast one's pulls spend most on waiting; but with S=0 the slowest one's
    # wait as long, for its own push: then its computing tells.
    computing = sum(beat.computing_seconds for beat in beats)
    pulling = sum(beat.pull.seconds for beat in beats)
    return max(computing, seconds - pulling) / steps


def _mean(calls: list[master_pb2.LatencyStats]) -> float:
    count = sum(each.count for each in calls)
    return sum(each.seconds for each in calls) / count if count else 0.0
