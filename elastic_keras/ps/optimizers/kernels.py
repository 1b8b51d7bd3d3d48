"""The loops that bring gradients to parameters and rows.

Which algorithm runs is a number in `plan`, not a function: numba cannot keep
on disk what was compiled for a function that is an argument.

numba's cache on disk follows changes of the file of a cached function only,
not of the files that it calls. Whoever edits an algorithm must delete the
`*.nbi` files in `__pycache__` of `ps/` and `ps/optimizers/`.
"""

import numpy as np
from numba import njit

from elastic_keras.ps.optimizers import (
    adadelta,
    adagrad,
    adam,
    adamax,
    ftrl,
    lion,
    nadam,
    rmsprop,
    sgd,
)
from elastic_keras.ps.optimizers.types import ONE, ZERO
from elastic_keras.ps.pointers import pointer, prefetch

# Where a plan keeps what (int64).
KIND = 0
NUM_SLOTS = 1  # slots of the algorithm and the average
HAS_DECAY = 2
EMA_SLOT = 3  # number of the average's slot, -1 without one
EMA_FREQUENCY = 4  # 0 never overwrites
HAS_COUNT = 5
PLAN_SIZE = 6
# Where `common` keeps what (float32).
DECAY = 0
EMA_MOMENTUM = 1
COMMON_SIZE = 2

# A row begins with its id, two words long.
ID_WORDS = np.uint64(2)
_ROWS_AHEAD = 8
_LINE_WORDS = np.uint64(16)
_ONE_WORD = np.uint64(1)

_SGD = sgd.KIND
_RMSPROP = rmsprop.KIND
_ADAGRAD = adagrad.KIND
_ADADELTA = adadelta.KIND
_ADAM = adam.KIND
_ADAMAX = adamax.KIND
_NADAM = nadam.KIND
_FTRL = ftrl.KIND
_update_sgd = sgd.update
_update_rmsprop = rmsprop.update
_update_adagrad = adagrad.update
_update_adadelta = adadelta.update
_update_adam = adam.update
_update_adamax = adamax.update
_update_nadam = nadam.update
_update_ftrl = ftrl.update
_update_lion = lion.update


@njit(nogil=True, cache=True, error_model="numpy")
def _update(kind, data, w, stride, product, grads, g, n, hyper, rate, count):  # type: ignore[no-untyped-def]
    if kind == _SGD:
        _update_sgd(data, w, stride, product, grads, g, n, hyper, rate, count)
    elif kind == _RMSPROP:
        _update_rmsprop(
            data, w, stride, product, grads, g, n, hyper, rate, count
        )
    elif kind == _ADAGRAD:
        _update_adagrad(
            data, w, stride, product, grads, g, n, hyper, rate, count
        )
    elif kind == _ADADELTA:
        _update_adadelta(
            data, w, stride, product, grads, g, n, hyper, rate, count
        )
    elif kind == _ADAM:
        _update_adam(data, w, stride, product, grads, g, n, hyper, rate, count)
    elif kind == _ADAMAX:
        _update_adamax(
            data, w, stride, product, grads, g, n, hyper, rate, count
        )
    elif kind == _NADAM:
        _update_nadam(data, w, stride, product, grads, g, n, hyper, rate, count)
    elif kind == _FTRL:
        _update_ftrl(data, w, stride, product, grads, g, n, hyper, rate, count)
    else:
        _update_lion(data, w, stride, product, grads, g, n, hyper, rate, count)


@njit(nogil=True, cache=True, error_model="numpy")
def _update_slice(  # type: ignore[no-untyped-def]
    plan, hyper, common, data, w, stride, product, grads, g, n, rate, count
):
    """Updates n parameters that lie together, as Keras does in one step.

    The order is Keras's: weight decay, the algorithm, the moving average,
    and every so often the average in place of the parameters. The arguments
    are those of `update_slice`, by their addresses.
    """
    if plan[HAS_DECAY] != 0:
        decay = common[DECAY]
        for i in range(n):
            data[w + i] -= data[w + i] * decay * rate
    _update(
        plan[KIND], data, w, stride, product, grads, g, n, hyper, rate, count
    )
    if plan[EMA_SLOT] < 0:
        return
    momentum = common[EMA_MOMENTUM] if count > 0 else ZERO
    rest = ONE - momentum
    a = w + np.uint64(plan[EMA_SLOT] + 1) * stride
    for i in range(n):
        data[a + i] = momentum * data[a + i] + rest * data[w + i]
    frequency = plan[EMA_FREQUENCY]
    if frequency > 0 and (count + 1) % frequency == 0:
        for i in range(n):
            data[w + i] = data[a + i]


@njit(nogil=True, cache=True, error_model="numpy")
def update_slice(  # type: ignore[no-untyped-def]
    plan, hyper, common, data, w, stride, product, grads, g, n, rate, count
):
    """Updates n parameters that lie together.

    Args:
        plan: Numbers of the optimizer (`HAS_DECAY`, ...), int64.
        hyper: Options of the algorithm, float32.
        common: Options that all algorithms share, float32.
        data, w, stride, product, grads, g, n, rate, count: See `types`.
    """
    _update_slice(
        pointer(plan),
        pointer(hyper),
        pointer(common),
        pointer(data),
        w,
        stride,
        product,
        pointer(grads),
        g,
        n,
        rate,
        count,
    )


@njit(nogil=True, cache=True, error_model="numpy")
def update_rows(  # type: ignore[no-untyped-def]
    plan, hyper, common, data, words, record, dim, rows, grads, rate
):
    """Updates the rows of a table, each by its own count.

    Args:
        plan, hyper, common: See `update_slice`.
        data: The records: id, weights, slots, then the count and the
            product of an optimizer that has them. float32.
        words: The same memory as uint32.
        record: Words of a record.
        dim: Weights of a row.
        rows: Numbers of the rows, (n,).
        grads: Their gradients, (n, dim) flattened.
        rate: The learning rate, float32.
    """
    numbers, options, shared = pointer(plan), pointer(hyper), pointer(common)
    floats, counts, slopes = pointer(data), pointer(words), pointer(grads)
    counted = plan[HAS_COUNT] != 0
    after_slots = ID_WORDS + dim * np.uint64(plan[NUM_SLOTS] + 1)
    n = len(rows)
    for i in range(n):
        if i + _ROWS_AHEAD < n:
            start = np.uint64(rows[i + _ROWS_AHEAD]) * record
            for line in range(np.uint64(0), record, _LINE_WORDS):
                prefetch(floats, start + line)
            prefetch(floats, start + record - _ONE_WORD)
        start = np.uint64(rows[i]) * record
        tail = start + after_slots
        count = np.int64(counts[tail]) if counted else np.int64(0)
        _update_slice(
            numbers,
            options,
            shared,
            floats,
            start + ID_WORDS,
            dim,
            tail + _ONE_WORD,
            slopes,
            np.uint64(i) * dim,
            dim,
            rate,
            count,
        )
        if counted:
            counts[tail] = np.uint32(count + 1)
