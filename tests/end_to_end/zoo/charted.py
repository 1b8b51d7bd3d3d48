"""`clicks` watched by Keras's own TensorBoard callback."""

import keras

from .clicks import (  # noqa: F401
    custom_model,
    dataset_fn,
    eval_metrics_fn,
    loss,
    optimizer,
)


def callbacks():
    return [
        keras.callbacks.TensorBoard(
            histogram_freq=1,
            write_images=True,
            write_steps_per_second=True,
            update_freq="batch",
            profile_batch=(30, 32),
        )
    ]
