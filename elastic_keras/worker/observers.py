"""Who looks at the chief's training steps."""

from typing import Protocol

from elastic_keras.config import JobConfig
from elastic_keras.monitoring.profile_option import profiled_steps
from elastic_keras.signature import ModelSignature
from elastic_keras.worker.histograms import StepHistograms
from elastic_keras.worker.profiler import StepProfiler
from elastic_keras.worker.values import Pulled, StepGradients


class StepObserver(Protocol):
    """Something that is told of each step, in the main thread."""

    def begin(self) -> None:
        """A step begins."""

    def end(self, pulled: Pulled, gradients: StepGradients) -> None:
        """A step is computed; its arrays are lent for this call only."""

    def close(self) -> None:
        """No step follows."""


def make_observers(
    config: JobConfig, folder: str, signature: ModelSignature
) -> tuple[StepObserver, ...]:
    """Makes what the job's options ask for.

    Args:
        config: The job.
        folder: Folder of this worker's TensorBoard run.
        signature: The model.
    """
    observers: list[StepObserver] = []
    if config.monitoring.histogram_secs:
        observers.append(
            StepHistograms(folder, signature, config.monitoring.histogram_secs)
        )
    steps = profiled_steps(config.monitoring.profile_steps)
    if steps is not None:
        observers.append(StepProfiler(folder, *steps))
    return tuple(observers)
