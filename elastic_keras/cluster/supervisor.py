"""Watches the processes of one job from its start to its end."""

import contextlib
import dataclasses
import heapq
import queue
import signal
import threading
import time
from collections.abc import Callable, Mapping

from elastic_keras.cluster import exits, leftover
from elastic_keras.cluster.job_directory import JobDirectory
from elastic_keras.cluster.job_watch import JobWatch
from elastic_keras.cluster.launcher import JobOutcome, StatusObserver
from elastic_keras.cluster.process import Process, ending
from elastic_keras.cluster.restarts import Restarts
from elastic_keras.wire.proto import master_pb2

# How long workers may take to leave once the job is over, how long an
# orderly stop may take, and the pause between SIGTERM and SIGKILL.
_LEAVE_SECONDS = {"succeeded": 10.0, "failed": 3.0, "stopped": 3.0}
_STOP_SECONDS = 8.0
_TERM_SECONDS = 3.0
# A worker that left in good order is missed only after this long.
_LEFT_SECONDS = 5.0


@dataclasses.dataclass(frozen=True)
class _Exited:
    process: Process
    exit_code: int


@dataclasses.dataclass(frozen=True)
class _Interrupted:
    number: int


@dataclasses.dataclass(frozen=True)
class _Unreachable:
    message: str


_Event = _Exited | _Interrupted | _Unreachable | master_pb2.JobStatus


class Supervisor:
    """Starts a job's processes, restarts those that die, ends everything.

    One thread (that of `run`) decides; others only put events into a queue.

    Args:
        directory: The job's directory.
        watch: Its view of the job.
        start: Starts the process of a role and index.
        restarts: Decides about restarts and counts them.
        observer: Gets each status of the job.
        comes_back: Whether a process of a role can be started again; the
            job ends with one that cannot.
        on_scaled: Called with the number of workers where that changes.
    """

    def __init__(
        self,
        directory: JobDirectory,
        watch: JobWatch,
        start: Callable[[str, int], Process],
        restarts: Restarts,
        observer: StatusObserver,
        comes_back: Callable[[str], bool],
        on_scaled: Callable[[int], None],
    ) -> None:
        self._directory = directory
        self._watch = watch
        self._start = start
        self._observer = observer
        self._comes_back = comes_back
        self._on_scaled = on_scaled
        # SimpleQueue.put may interrupt itself: a signal handler calls it.
        self._events: queue.SimpleQueue[_Event] = queue.SimpleQueue()
        self._restarts = restarts
        self._processes: dict[str, Process] = {}
        self._started: dict[str, float] = {}
        self._due: list[tuple[float, str, int]] = []
        self._status = master_pb2.JobStatus(phase="starting")
        self._outcome: JobOutcome | None = None
        # Workers that the job is to have.
        self._workers = 0
        self._interrupts = 0
        self._interrupted_code = 0
        self._stop_at = float("inf")
        self._began = time.monotonic()

    def interrupt(self, number: int) -> None:
        """Takes note of a signal: the first stops the job, the next kills."""
        self._events.put(_Interrupted(number))

    def run(self, roles: Mapping[str, int]) -> JobOutcome:
        """Runs the job; all of its processes are gone on return.

        Args:
            roles: How many processes of each role, in order of their start.
        """
        try:
            self._directory.write_restarts(self._restarts.counts)
            self._workers = roles.get("worker", 0)
            for role, count in roles.items():
                for index in range(count):
                    self._launch(role, index)
            self._watch.start(
                on_status=self._events.put,
                on_unreachable=lambda text: self._events.put(
                    _Unreachable(text)
                ),
            )
            while self._outcome is None:
                self._handle(self._next_event())
            self._let_workers_leave()
        finally:
            self._end_processes()
            self._watch.close()
        self._leave_result(self._outcome)
        return self._outcome

    def _launch(self, role: str, index: int) -> None:
        process = self._start(role, index)
        self._processes[process.name] = process
        self._started[process.name] = time.monotonic()
        threading.Thread(
            target=lambda: self._events.put(_Exited(process, process.wait())),
            name=f"wait-{process.name}",
            daemon=True,
        ).start()

    def _next_event(self) -> _Event | None:
        """Waits for an event, or until something is due (`None`)."""
        due = min(
            self._due[0][0] if self._due else self._stop_at, self._stop_at
        )
        if due == float("inf"):
            return self._events.get()
        try:
            return self._events.get(timeout=max(0.0, due - time.monotonic()))
        except queue.Empty:
            return None

    def _handle(self, event: _Event | None) -> None:
        if isinstance(event, master_pb2.JobStatus):
            self._on_status(event)
        elif isinstance(event, _Exited):
            self._on_exit(event.process, event.exit_code)
        elif isinstance(event, _Interrupted):
            self._on_interrupt(event.number)
        elif isinstance(event, _Unreachable):
            self._fail(exits.USER_ERROR, event.message)
        else:
            self._on_due()

    def _on_status(self, status: master_pb2.JobStatus) -> None:
        self._status = status
        self._observer(status)
        if status.workers_wanted and status.phase not in _LEAVE_SECONDS:
            self._scale(status.workers_wanted)
        if status.phase in _LEAVE_SECONDS:
            code = status.exit_code
            if status.phase == "failed":
                code = code or exits.USER_ERROR
            if status.phase == "stopped" and self._interrupts:
                code = self._interrupted_code
            self._finish(status.phase, code, status.error)

    def _scale(self, wanted: int) -> None:
        """Starts or ends workers: those of the highest indexes go."""
        if wanted == self._workers:
            return
        before, self._workers = self._workers, wanted
        self._on_scaled(wanted)
        for index in range(before, wanted):
            process = self._processes.get(f"worker-{index}")
            if process is not None and process.alive:
                # Told to leave a moment ago; it is started when it has.
                continue
            self._launch("worker", index)
        for index in range(wanted, before):
            process = self._processes.get(f"worker-{index}")
            if process is not None:
                process.signal(signal.SIGTERM)

    def _on_exit(self, process: Process, exit_code: int) -> None:
        process.close()
        if self._interrupts:
            # Whatever leaves now was asked to; the master has the last word.
            if process.role == "master":
                self._finish("stopped", self._interrupted_code, "")
            return
        if exit_code in (exits.USER_ERROR, exits.WRONG_USE):
            self._fail(exit_code, process.last_words())
            return
        if not self._comes_back(process.role):
            self._fail(exits.USER_ERROR, self._obituary(process, exit_code))
            return
        if process.role == "worker":
            self._watch.worker_died(process.index, process.pid)
            if process.index >= self._workers:
                return
        delay = self._restarts.died(
            process.name,
            ran_for=time.monotonic() - self._started[process.name],
            steps=self._status.steps,
        )
        if delay is None:
            self._fail(
                exits.USER_ERROR,
                "Processes keep dying and the job makes no progress. "
                + self._obituary(process, exit_code),
            )
            return
        if exit_code == exits.DONE and process.role == "worker":
            # It left, most likely because the job is over: wait for that.
            delay = max(delay, _LEFT_SECONDS)
        due = time.monotonic() + delay
        heapq.heappush(self._due, (due, process.role, process.index))

    def _obituary(self, process: Process, exit_code: int) -> str:
        return (
            f"{process.name} {ending(exit_code)}. The end of {process.log}:\n"
            f"{process.last_words()}"
        )

    def _on_interrupt(self, number: int) -> None:
        self._interrupts += 1
        if self._interrupts == 1:
            self._interrupted_code = 128 + number
            self._stop_at = time.monotonic() + _STOP_SECONDS
            self._watch.stop_job(f"stopped by {signal.Signals(number).name}")
            return
        self._kill_all()
        self._finish("stopped", self._interrupted_code, "")

    def _on_due(self) -> None:
        now = time.monotonic()
        if now >= self._stop_at:
            self._finish("stopped", self._interrupted_code, "")
            return
        while self._due and self._due[0][0] <= now:
            _, role, index = heapq.heappop(self._due)
            if role == "worker" and index >= self._workers:
                continue
            self._launch(role, index)
            self._restarts.restarted(role)
            self._directory.write_restarts(self._restarts.counts)

    def _fail(self, exit_code: int, error: str) -> None:
        self._finish("failed", exit_code, error)

    def _finish(self, status: str, exit_code: int, error: str) -> None:
        if self._outcome is None:
            self._outcome = JobOutcome(
                job_dir=str(self._directory.path),
                status=status,
                exit_code=exit_code,
                error=error.strip(),
            )

    def _let_workers_leave(self) -> None:
        """Waits for workers that the master has told to leave."""
        if self._status.phase in _LEAVE_SECONDS:
            patience = _LEAVE_SECONDS[self._status.phase]
            self._await_exits("worker", time.monotonic() + patience)

    def _end_processes(self) -> None:
        """Ends what still runs: SIGTERM, and SIGKILL where that fails."""
        for process in self._processes.values():
            process.signal(signal.SIGTERM)
        self._await_exits("", time.monotonic() + _TERM_SECONDS)
        self._kill_all()
        for process in self._processes.values():
            process.wait()
            process.close()

    def _await_exits(self, role: str, deadline: float) -> None:
        """Waits until no process of a role (of any, if empty) is alive."""
        while any(
            process.alive
            for process in self._processes.values()
            if not role or process.role == role
        ):
            left = deadline - time.monotonic()
            if left <= 0:
                return
            with contextlib.suppress(queue.Empty):
                event = self._events.get(timeout=left)
                if isinstance(event, _Interrupted):
                    self._kill_all()

    def _kill_all(self) -> None:
        for process in self._processes.values():
            process.signal(signal.SIGKILL)

    def _leave_result(self, outcome: JobOutcome) -> None:
        """Lets result.json say how the job ended, if it does not yet."""
        left = self._directory.read_result()
        result = leftover.completed(
            left,
            outcome,
            self._status,
            seconds=time.monotonic() - self._began,
            restarts=self._restarts.counts,
        )
        if result != left:
            self._directory.write_result(result)
