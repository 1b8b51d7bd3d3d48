"""The norms of rows that come in parts."""

import math

import numpy as np

# A bin of the histogram is a sixteenth of an octave wide: 4.4 %.
_PER_OCTAVE = 16
_LOWEST, _HIGHEST = -160 * _PER_OCTAVE, 160 * _PER_OCTAVE


class Norms:
    """Statistics of positive, finite norms, in memory of fixed size."""

    def __init__(self) -> None:
        self._bins = np.zeros(_HIGHEST - _LOWEST, np.int64)
        self._sum = 0.0
        self.zeros = 0
        self.min = math.inf
        self.max = 0.0

    @property
    def count(self) -> int:
        """Number of norms, zeros included."""
        return int(self._bins.sum()) + self.zeros

    @property
    def mean(self) -> float:
        """Their mean; 0 of none."""
        return self._sum / self.count if self.count else 0.0

    @property
    def median(self) -> float:
        """The median of those that are not 0, to 4 %; 0 of none."""
        below = np.cumsum(self._bins)
        if not below[-1]:
            return 0.0
        middle = int(np.searchsorted(below, (below[-1] + 1) // 2))
        return _edge(middle + 0.5)

    def add(self, norms: np.ndarray) -> None:
        """Takes a part.

        Args:
            norms: float64, `(n,)`, finite.
        """
        if not len(norms):
            return
        self._sum += float(norms.sum())
        self.min = min(self.min, float(norms.min()))
        self.max = max(self.max, float(norms.max()))
        positive = norms[norms > 0]
        self.zeros += len(norms) - len(positive)
        places = np.floor(_PER_OCTAVE * np.log2(positive)).astype(np.int64)
        places = np.clip(places, _LOWEST, _HIGHEST - 1) - _LOWEST
        self._bins += np.bincount(places, minlength=len(self._bins))

    def beyond(self, factor: float) -> tuple[float, int]:
        """Counts the norms that are much larger than the median.

        Args:
            factor: About how many times as large.

        Returns:
            The limit, an edge of the histogram, and the norms above it.
        """
        if not self.median:
            return 0.0, 0
        place = math.ceil(_PER_OCTAVE * math.log2(factor * self.median))
        place = min(place - _LOWEST, len(self._bins))
        return _edge(place), int(self._bins[place:].sum())


def _edge(place: float) -> float:
    return 2.0 ** ((place + _LOWEST) / _PER_OCTAVE)
