"""A shard's dense parameters and shared states, each in one flat buffer."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from elastic_keras.ps import constraints
from elastic_keras.ps.arrays import frozen
from elastic_keras.ps.optimizers.kernels import update_slice
from elastic_keras.ps.optimizers.plan import OptimizerPlan
from elastic_keras.routing import ShardPlacement
from elastic_keras.signature import ConstraintSpec, ModelSignature

PRODUCT = "product"


@dataclasses.dataclass(frozen=True)
class _Part:
    """A slice of a variable, and what its update needs."""

    offset: int
    size: int
    shape: tuple[int, ...]
    optimizer: int
    plan: OptimizerPlan
    constraint: ConstraintSpec | None


class DenseParameters:
    """The slices of dense parameters that a shard owns, with their slots.

    Parameters lie in routing order in one buffer; each slot is a buffer of
    the same length behind it. Not safe for threads.

    Args:
        placement: What the shard owns.
        signature: The model.

    Raises:
        ValueError: A constraint, an optimizer or an option that shards do
            not know.
    """

    def __init__(
        self, placement: ShardPlacement, signature: ModelSignature
    ) -> None:
        self._size = placement.dense_size
        self._parts = []
        for piece in placement.dense:
            spec = signature.dense[piece.index]
            constraints.check(spec.constraint)
            self._parts.append(
                _Part(
                    offset=piece.offset,
                    size=piece.size,
                    shape=tuple(piece.shape),
                    optimizer=spec.optimizer,
                    plan=OptimizerPlan.from_spec(
                        signature.optimizers[spec.optimizer],
                        weight_decay=spec.weight_decay,
                    ),
                    constraint=spec.constraint,
                )
            )
        self._num_optimizers = len(signature.optimizers)
        most = max((len(part.plan.slots) for part in self._parts), default=0)
        # Parameters, slots, and for each part the product of its optimizer.
        self._products = (1 + most) * self._size
        self._data = np.zeros(
            self._products + len(self._parts), dtype=np.float32
        )
        self._states = np.zeros(placement.states_size, dtype=np.float32)
        self._reset_slots()

    @property
    def values(self) -> np.ndarray:
        """The parameters: float32, (dense_size,), a view."""
        return self._data[: self._size]

    @property
    def states(self) -> np.ndarray:
        """The shared states: float32, (states_size,), a view."""
        return self._states

    @property
    def nbytes(self) -> int:
        """Bytes of parameters, slots and states."""
        return self._data.nbytes + self._states.nbytes

    def initialize(self, values: np.ndarray, states: np.ndarray) -> None:
        """Sets the first values; slots begin anew.

        Args:
            values: float32, (dense_size,).
            states: float32, (states_size,).

        Raises:
            ValueError: Another dtype or shape.
        """
        values = frozen(values, np.float32, "values", self.values.shape)
        states = frozen(states, np.float32, "states", self.states.shape)
        self.values[:] = values
        self.states[:] = states
        self._reset_slots()

    def apply(
        self,
        gradients: np.ndarray,
        *,
        learning_rates: Sequence[float],
        iteration: int,
    ) -> None:
        """Updates every parameter, as one step of Keras's optimizer.

        Args:
            gradients: float32, (dense_size,).
            learning_rates: The rate of each of the model's optimizers.
            iteration: Updates before this one.

        Raises:
            ValueError: Another dtype, shape or number of rates, a rate that
                is not finite, or a negative iteration.
        """
        gradients = frozen(
            gradients, np.float32, "gradients", self.values.shape
        )
        if len(learning_rates) != self._num_optimizers or not all(
            map(math.isfinite, learning_rates)
        ):
            raise ValueError(
                f"learning_rates holds {self._num_optimizers} finite numbers. "
                f"Received: learning_rates={list(learning_rates)}"
            )
        if iteration < 0:
            raise ValueError(
                f"An iteration is not negative. Received: iteration={iteration}"
            )
        for number, part in enumerate(self._parts):
            start = np.uint64(part.offset)
            update_slice(
                part.plan.numbers,
                part.plan.hyper,
                part.plan.common,
                self._data,
                start,
                np.uint64(self._size),
                np.uint64(self._products + number),
                gradients,
                start,
                np.uint64(part.size),
                np.float32(learning_rates[part.optimizer]),
                iteration,
            )
            if part.constraint is not None:
                values = self._slice(part)
                values[...] = constraints.constrain(values, part.constraint)

    def add_states(self, deltas: np.ndarray) -> None:
        """Adds a worker's change to the shared states.

        Args:
            deltas: float32, (states_size,).

        Raises:
            ValueError: Another dtype or shape.
        """
        self._states += frozen(deltas, np.float32, "deltas", self._states.shape)

    def finalize(self) -> None:
        """Replaces parameters by their moving averages, if there are any."""
        for part in self._parts:
            slot = part.plan.ema_slot
            if slot >= 0:
                self._slice(part)[...] = self._slice(part, slot + 1)

    def slots(self) -> dict[str, np.ndarray]:
        """Copies the slots out.

        Returns:
            By name: float32, (dense_size,), zero where a parameter's
            optimizer has no such slot. `product`, if an optimizer keeps
            one, is a number for each slice: float32, (slices,).
        """
        found: dict[str, np.ndarray] = {}
        for number, part in enumerate(self._parts):
            for position, slot in enumerate(part.plan.slots):
                out = found.setdefault(
                    slot.name, np.zeros(self._size, dtype=np.float32)
                )
                stop = part.offset + part.size
                out[part.offset : stop] = self._flat(part, position + 1)
            if part.plan.has_product:
                out = found.setdefault(
                    PRODUCT, np.zeros(len(self._parts), dtype=np.float32)
                )
                out[number] = self._data[self._products + number]
        return found

    def restore_slots(self, slots: dict[str, np.ndarray]) -> None:
        """Sets the slots to what `slots` gave.

        Args:
            slots: Every slot by name.

        Raises:
            ValueError: Another dtype, shape, or set of slots.
        """
        expected = self.slots()
        if set(expected) != set(slots):
            raise ValueError(
                f"The slots are {sorted(expected)}. "
                f"Received: slots={sorted(slots)}"
            )
        checked = {
            name: frozen(slots[name], np.float32, name, array.shape)
            for name, array in expected.items()
        }
        for number, part in enumerate(self._parts):
            for position, slot in enumerate(part.plan.slots):
                stop = part.offset + part.size
                self._flat(part, position + 1)[:] = checked[slot.name][
                    part.offset : stop
                ]
            if part.plan.has_product:
                self._data[self._products + number] = checked[PRODUCT][number]

    def _reset_slots(self) -> None:
        self._data[self._products :] = 1
        for part in self._parts:
            for position, slot in enumerate(part.plan.slots):
                self._flat(part, position + 1)[:] = slot.initial_value

    def _flat(self, part: _Part, position: int = 0) -> np.ndarray:
        start = position * self._size + part.offset
        return self._data[start : start + part.size]

    def _slice(self, part: _Part, position: int = 0) -> np.ndarray:
        return self._flat(part, position).reshape(part.shape)
