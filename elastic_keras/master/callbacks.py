"""When the hooks of Keras callbacks run."""

from collections.abc import Mapping
from typing import Any

from elastic_keras.master.side_tasks import SideTasks

_REMEMBERED = 8


class Callbacks:
    """Runs hooks on the chief, one after another.

    Batch hooks are not here: the chief runs them around its own batches.

    Args:
        side: Hands the hooks out.
    """

    def __init__(self, side: SideTasks) -> None:
        self._side = side
        self.enabled = False
        # A callback has set model.stop_training.
        self.stop = False
        # Of the newest hooks: those that need not be run again.
        self._done: list[list[Any]] = []

    async def run(
        self,
        hook: str,
        *,
        epoch: int = 0,
        step: int = 0,
        logs: dict[str, float] | None = None,
    ) -> None:
        """Runs a hook, if the model-zoo module has callbacks.

        Args:
            hook: Its name, e.g. `on_epoch_end`.
            epoch: The epoch, from 0.
            step: The optimizer's iterations.
            logs: Its logs.
        """
        if not self.enabled:
            return
        key = [hook, epoch, step]
        if key in self._done:
            return
        stop = await self._side.callback(
            hook, epoch=epoch, step=step, logs=logs or {}
        )
        self.stop = self.stop or stop
        # A worker that was started since then has yet to begin its training;
        # any other does so once only.
        if hook != "on_train_begin":
            self._done = [*self._done[-_REMEMBERED:], key]

    def to_state(self) -> dict[str, Any]:
        """Returns what has run, as plain data."""
        return {"stop": self.stop, "done": self._done}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Takes over what `to_state` returned."""
        self.stop = state["stop"]
        self._done = list(state["done"])
