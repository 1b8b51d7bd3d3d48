"""When the hooks of Keras callbacks run."""

from elastic_keras.master.side_tasks import SideTasks


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
        stop = await self._side.callback(
            hook, epoch=epoch, step=step, logs=logs or {}
        )
        self.stop = self.stop or stop
