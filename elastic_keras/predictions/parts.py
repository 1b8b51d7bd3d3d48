"""The outputs of one task, as a file."""

import os
import pathlib
import zipfile
from collections.abc import Iterator, Mapping

import numpy as np

from elastic_keras.config import ConfigError

FOLDER = "parts"


def write(job_dir: str, task: int, outputs: Mapping[str, np.ndarray]) -> None:
    """Writes a task's outputs; those of an earlier try are replaced.

    Args:
        job_dir: The job directory.
        task: The task's number, which is its place in the input.
        outputs: Arrays of shape `(examples, ...)` by name.

    Raises:
        OSError: They cannot be written.
    """
    folder = pathlib.Path(job_dir, FOLDER)
    folder.mkdir(exist_ok=True)
    # Two workers may be at the same task: each has a file of its own.
    new = folder / f".{task}.{os.getpid()}.new"
    # Not np.savez: it takes outputs of some names, such as file, for
    # arguments of its own.
    with zipfile.ZipFile(new, "w") as archive:
        for name, array in outputs.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asanyarray(array))
    os.replace(new, folder / f"{task:08d}.npz")


class Parts:
    """All parts of a job, in the order of the input.

    Args:
        job_dir: The job directory.
    """

    def __init__(self, job_dir: str) -> None:
        folder = pathlib.Path(job_dir, FOLDER)
        self._paths = sorted(folder.glob("*.npz"))
        self._kinds: list[dict[str, np.ndarray]] = [
            _kinds(path) for path in self._paths
        ]
        self.names = list(self._kinds[0]) if self._kinds else []
        for path, kinds in zip(self._paths, self._kinds, strict=True):
            self._check(path, kinds)

    @property
    def examples(self) -> int:
        """Examples of all parts."""
        if not self.names:
            return 0
        return sum(len(kinds[self.names[0]]) for kinds in self._kinds)

    def dtype(self, name: str) -> np.dtype:
        """Returns the dtype that holds an output of every part."""
        return np.result_type(*(kinds[name].dtype for kinds in self._kinds))

    def shape(self, name: str) -> tuple[int, ...]:
        """Returns the shape of an output for one example."""
        return self._kinds[0][name].shape[1:]

    def arrays(self) -> Iterator[dict[str, np.ndarray]]:
        """Reads part after part."""
        for path in self._paths:
            with np.load(path) as part:
                yield {name: part[name] for name in self.names}

    def array(self, name: str) -> Iterator[np.ndarray]:
        """Reads one output, part after part."""
        for path in self._paths:
            with np.load(path) as part:
                yield part[name].astype(self.dtype(name), copy=False)

    def _check(self, path: pathlib.Path, kinds: dict[str, np.ndarray]) -> None:
        for name in self.names:
            if kinds[name].shape[1:] != self.shape(name):
                raise ConfigError(
                    "Outputs whose shape differs from batch to batch make no "
                    "file: write them with a prediction_outputs_processor. "
                    f"Received: {name} of shapes {self.shape(name)} and "
                    f"{kinds[name].shape[1:]} for an example"
                )


def _kinds(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Returns arrays of a part's shapes and dtypes, without its values."""
    found = {}
    with zipfile.ZipFile(path) as archive:
        for entry in archive.namelist():
            with archive.open(entry) as file:
                version = np.lib.format.read_magic(file)
                read = (
                    np.lib.format.read_array_header_1_0
                    if version == (1, 0)
                    else np.lib.format.read_array_header_2_0
                )
                shape, _, dtype = read(file)
            empty = np.broadcast_to(np.zeros((), dtype), shape)
            found[entry.removesuffix(".npy")] = empty
    return found
