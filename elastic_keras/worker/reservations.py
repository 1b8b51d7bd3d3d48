"""Leave to start steps, where evaluations or max_steps count them."""

import enum
import threading

from elastic_keras.worker.master_client import MasterClient


class Leave(enum.Enum):
    """What the pull thread may do next."""

    STEP = "step"
    EVALUATE = "evaluate"
    STOP = "stop"


class Reservations:
    """Reserves steps at the master before they are pulled.

    No step is reserved beyond the batches at hand, so a worker without data
    holds nothing back that others could use. What lands is settled at once
    when nothing is left to use: the master may be waiting for it.

    Args:
        master: The master.
    """

    def __init__(self, master: MasterClient) -> None:
        self._master = master
        self._lock = threading.Lock()
        self._granted = 0
        self._done = 0
        self._returned = 0
        self._member = 0

    def acquire(self, at_hand: int) -> tuple[Leave, int]:
        """Waits for the leave to start a step.

        Args:
            at_hand: Batches that will be trained for certain, this one
                among them.

        Returns:
            The leave, and the member number that came with it (0: as
            before).
        """
        while True:
            with self._lock:
                if self._granted:
                    self._granted -= 1
                    member, self._member = self._member, 0
                    return Leave.STEP, member
                done, returned = self._take()
            reply = self._master.reserve(
                done=done, returned=returned, want=at_hand
            )
            with self._lock:
                self._granted += reply.granted
                self._member = reply.member or self._member
            if reply.stop:
                return Leave.STOP, 0
            if reply.evaluate:
                return Leave.EVALUATE, 0

    def settle(self, *, done: int = 0, returned: int = 0) -> None:
        """Settles reserved steps.

        Args:
            done: Steps that landed.
            returned: Steps that will not be done, or were done before.
        """
        with self._lock:
            self._done += done
            self._returned += returned
            if self._granted:
                # The next `acquire` brings it soon.
                return
        self.flush()

    def flush(self) -> None:
        """Tells the master what was settled but not sent."""
        with self._lock:
            done, returned = self._take()
        if done or returned:
            self._master.reserve(done=done, returned=returned)

    def give_back(self) -> None:
        """Returns what is reserved but not started."""
        with self._lock:
            unused, self._granted = self._granted, 0
        self.settle(returned=unused)

    def forget(self) -> None:
        """Drops everything: the master knows nothing of it any more."""
        with self._lock:
            self._granted = self._done = self._returned = self._member = 0

    def _take(self) -> tuple[int, int]:
        taken = self._done, self._returned
        self._done = self._returned = 0
        return taken
