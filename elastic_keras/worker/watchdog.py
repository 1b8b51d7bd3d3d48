"""Notices that the user's code hangs while the process is alive.

Heartbeats come from a thread of their own: without this, a worker whose step
hangs would keep its tasks and reserved steps, and hold the others up, for
ever.
"""

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Generator, Iterator

from elastic_keras.wire.proto import master_pb2
from elastic_keras.worker import items
from elastic_keras.worker.feeder import TaskData
from elastic_keras.worker.pipeline import Computing
from elastic_keras.worker.values import Pulled, StepGradients

_LONGEST_PAUSE = 1.0


@dataclasses.dataclass(eq=False)
class _Doing:
    what: str
    since: float
    may_last: bool
    told: bool = False


class Watchdog:
    """Watches for how long each thread is at one thing.

    Args:
        seconds: How long is too long; 0 watches nothing.
        hung: Called, once, with what hangs and for how long it has.
        slow: Called in its stead, once each, where it may be meant.
        clock: Seconds, from any origin.
    """

    def __init__(
        self,
        seconds: float = 0.0,
        hung: Callable[[str, float], None] = lambda what, seconds: None,
        slow: Callable[[str, float], None] = lambda what, seconds: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds = seconds
        self._hung = hung
        self._slow = slow
        self._clock = clock
        self._lock = threading.Lock()
        self._under_way: dict[int, _Doing] = {}

    def start(self) -> None:
        """Starts looking, in a thread of its own, to the process's end."""
        if self._seconds:
            threading.Thread(
                target=self._run, name="watchdog", daemon=True
            ).start()

    @contextlib.contextmanager
    def watch(self, what: str, *, may_last: bool = False) -> Iterator[None]:
        """Watches what the calling thread does in a block.

        Args:
            what: What it does, for messages.
            may_last: It is `slow` that is told if it takes too long.
        """
        thread = threading.get_ident()
        with self._lock:
            self._under_way[thread] = _Doing(what, self._clock(), may_last)
        try:
            yield
        finally:
            with self._lock:
                del self._under_way[thread]

    def look(self) -> bool:
        """Looks once; returns whether something hangs."""
        now = self._clock()
        with self._lock:
            under_way = list(self._under_way.values())
        for doing in under_way:
            seconds = now - doing.since
            if seconds <= self._seconds or doing.told:
                continue
            doing.told = doing.may_last
            if not doing.may_last:
                self._hung(doing.what, seconds)
                return True
            self._slow(doing.what, seconds)
        return False

    def _run(self) -> None:
        pause = threading.Event()
        while not self.look():
            pause.wait(min(self._seconds / 4, _LONGEST_PAUSE))


class WatchedComputing:
    """Computes training steps under a watchdog; see `pipeline.Computing`.

    Args:
        computing: Computes them.
        watchdog: Watches it.
    """

    def __init__(self, computing: Computing, watchdog: Watchdog) -> None:
        self._computing = computing
        self._watchdog = watchdog

    def begin_task(self) -> None:
        """See `pipeline.Computing.begin_task`."""
        self._computing.begin_task()

    def compute(
        self, train: items.TrainBatch, pulled: Pulled, *, again: bool
    ) -> StepGradients:
        """See `pipeline.Computing.compute`."""
        with self._watchdog.watch("a training step"):
            return self._computing.compute(train, pulled, again=again)

    def end_task(self) -> master_pb2.MetricStates:
        """See `pipeline.Computing.end_task`."""
        return self._computing.end_task()


class WatchedData:
    """A task's data under a watchdog; see `feeder.TaskData`.

    Args:
        opened: The data.
        watchdog: Watches them.
    """

    def __init__(self, opened: TaskData, watchdog: Watchdog) -> None:
        self._opened = opened
        self._watchdog = watchdog

    def batches(self) -> Generator[items.Batch, None, None]:
        """See `feeder.TaskData.batches`."""
        with contextlib.closing(self._opened.batches()) as batches:
            while True:
                with self._watchdog.watch("making a batch of records"):
                    batch = next(batches, None)
                if batch is None:
                    return
                yield batch

    def report(self) -> master_pb2.ReportTaskRequest:
        """See `feeder.TaskData.report`."""
        return self._opened.report()


def watched(
    open_data: Callable[[master_pb2.Task], TaskData], watchdog: Watchdog
) -> Callable[[master_pb2.Task], TaskData]:
    """Returns what opens tasks' data under a watchdog.

    Args:
        open_data: Opens a task's data.
        watchdog: Watches it.
    """

    def open_watched(task: master_pb2.Task) -> TaskData:
        with watchdog.watch("opening a task's data"):
            return WatchedData(open_data(task), watchdog)

    return open_watched
