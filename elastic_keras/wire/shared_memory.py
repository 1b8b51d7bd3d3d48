"""Memory that a worker shares with the shards of its host.

Large arrays then need no copy into a message, a socket, and out of both. The
calls themselves stay gRPC's: a request names a region of its caller's
segment, and tensors of request and reply lie in it.

A segment is a memfd: it has no name that could outlive its processes.
"""

import collections
import fcntl
import mmap
import os
import secrets
import stat
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from elastic_keras.wire.errors import WireError
from elastic_keras.wire.proto import tensor_pb2

# Of addresses, not of memory: pages come with their first use.
SEGMENT_BYTES = 1 << 30
# A message as small as this is faster without a region.
LEAST_BYTES = 16 << 10
_ALIGNMENT = 64
_UNIT = 64 << 10
_KEY_BYTES = 16
_NAME = "elastic_keras"
_MOST_SEGMENTS = 4096


def is_available(address: str) -> bool:
    """Returns whether a server may share memory with this process.

    Args:
        address: Where it listens: `unix:PATH` or `HOST:PORT`.
    """
    return sys.platform == "linux" and address.startswith("unix:")


class Region:
    """A part of a segment that belongs to one call and what it brings.

    It is used again once the last array on it is gone, except after a failed
    call: a server may still be at work on that, and write into it.

    Args:
        array: The bytes: uint8, shape `(n,)`.
        message: What a request says of it.
        use_up: Keeps it from being used again.
    """

    def __init__(
        self,
        array: np.ndarray,
        message: tensor_pb2.Region,
        use_up: Callable[[], None],
    ) -> None:
        self.array = array
        self.message = message
        self._use_up = use_up

    def use_up(self) -> None:
        """Keeps it from being used again; may be called repeatedly."""
        self._use_up()


class _Owner(np.ndarray):
    """The array that all others of a region hold on to.

    NumPy makes a view of a view hold on to the first array, but stops at one
    of another class.
    """


class Segment:
    """Memory of this process that servers of the same host can open.

    Any thread may use it.

    Args:
        size: Largest size in bytes.

    Raises:
        OSError: The system gives none.
    """

    def __init__(self, size: int = SEGMENT_BYTES) -> None:
        self._fd = os.memfd_create(_NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self._fd, size)
        # A server that maps it need not fear that it shrinks.
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(self._fd, fcntl.F_ADD_SEALS, seals)
        self._size = size
        self._memory = mmap.mmap(self._fd, size)
        self._key = secrets.token_bytes(_KEY_BYTES)
        self._memory[:_KEY_BYTES] = self._key
        self._lock = threading.Lock()
        self._end = _UNIT
        # By length; a list's append and pop need no lock, which a collector
        # that runs in between could not take.
        self._free: dict[int, list[int]] = collections.defaultdict(list)

    def take(self, size: int) -> Region | None:
        """Returns a region of at least so many bytes, or `None`: no room."""
        length = _length(size)
        offset = self._place(length)
        if offset is None:
            return None
        owner = _Owner((length,), np.uint8, self._memory, offset)  # type: ignore[arg-type]
        give_back = weakref.finalize(owner, self._free[length].append, offset)
        give_back.atexit = False
        message = tensor_pb2.Region(
            pid=os.getpid(),
            fd=self._fd,
            segment_bytes=self._size,
            key=self._key,
            offset=offset,
            bytes=length,
        )
        array = owner.view(np.ndarray)
        return Region(array, message, lambda: self._use_up(give_back))

    def close(self) -> None:
        """Lets the memory go once the last array on it is gone."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _place(self, length: int) -> int | None:
        try:
            return self._free[length].pop()
        except IndexError:
            pass
        with self._lock:
            offset = self._end
            if offset + length > self._size:
                return None
            self._end += length
            return offset

    def _use_up(self, give_back: "weakref.finalize[Any, Any]") -> None:
        found = give_back.detach()
        if found is not None:
            owner, _, (offset,), _ = found
            # The addresses are lost, their memory is not.
            weakref.finalize(
                owner,
                self._memory.madvise,
                mmap.MADV_REMOVE,
                offset,
                owner.size,
            ).atexit = False


def _length(size: int) -> int:
    """Returns the size of region to give: few sizes, found again soon."""
    length = _UNIT
    while length < size:
        length *= 2
    if size <= length // 4 * 3 and length >= 4 * _UNIT:
        length = length // 4 * 3
    return length


class OpenSegments:
    """Segments of other processes that a server has opened.

    Any thread may use it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[bytes, tuple[int, np.ndarray]] = {}

    def array(self, region: tensor_pb2.Region) -> np.ndarray:
        """Returns the bytes of a region: uint8, shape `(n,)`.

        Args:
            region: What a request says of it.

        Raises:
            WireError: It cannot be opened, or does not lie in its segment.
        """
        with self._lock:
            _, segment = self._open.get(region.key, (0, None))
            if segment is None:
                segment = self._open_segment(region)
        end = region.offset + region.bytes
        if (
            end > segment.size
            or region.segment_bytes != segment.size
            or region.offset % _ALIGNMENT
        ):
            raise WireError(
                f"region: the segment has {segment.size} bytes, of which a "
                f"region begins at a multiple of {_ALIGNMENT}. Received: "
                f"segment_bytes={region.segment_bytes}, "
                f"offset={region.offset}, bytes={region.bytes}"
            )
        return segment[region.offset : end]

    def _open_segment(self, region: tensor_pb2.Region) -> np.ndarray:
        self._drop_dead()
        if len(self._open) >= _MOST_SEGMENTS:
            raise WireError(
                f"region: at most {_MOST_SEGMENTS} segments are open at once"
            )
        try:
            segment = _map(region)
        except (OSError, ValueError) as error:
            raise WireError(
                f"region: its memory cannot be opened here: {error}. "
                f"Received: pid={region.pid}, fd={region.fd}"
            ) from error
        self._open[region.key] = region.pid, segment
        return segment

    def _drop_dead(self) -> None:
        for key, (pid, _) in list(self._open.items()):
            if not os.path.exists(f"/proc/{pid}"):
                del self._open[key]


def _map(region: tensor_pb2.Region) -> np.ndarray:
    path = f"/proc/{region.pid}/fd/{region.fd}"
    # Looked at before it is opened: to open a device or a pipe does things.
    if not os.readlink(path).startswith(f"/memfd:{_NAME} "):
        raise ValueError("not a segment")
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or not (
            _UNIT <= found.st_size == region.segment_bytes
        ):
            raise ValueError(f"it has {found.st_size} bytes")
        if not fcntl.fcntl(fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK:
            raise ValueError("it is not sealed")
        memory = mmap.mmap(fd, found.st_size)
    finally:
        os.close(fd)
    if len(region.key) != _KEY_BYTES or memory[:_KEY_BYTES] != region.key:
        raise ValueError("it is another segment")
    return np.frombuffer(memory, np.uint8)


class Writer:
    """Puts arrays into a region, one after another.

    Args:
        region: The region: uint8, shape `(n,)`.
        start: Where its free part begins.
    """

    def __init__(self, region: np.ndarray, start: int = 0) -> None:
        self._region = region
        self._address = region.ctypes.data
        self._end = start

    @property
    def end(self) -> int:
        """Where the free part begins."""
        return self._end

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Returns an array to fill: in the region, if there is room."""
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        start = -(-self._end // _ALIGNMENT) * _ALIGNMENT
        if start + size > self._region.size:
            return np.empty(shape, dtype)
        self._end = start + size
        return self._region[start : self._end].view(dtype).reshape(shape)

    def put(self, array: np.ndarray) -> tuple[int, np.ndarray] | None:
        """Copies an array into the region, unless `empty` made it there.

        Args:
            array: The array.

        Returns:
            Its offset and the array there, or `None`: no room, or nothing to
            put.
        """
        if not array.size:
            return None
        offset = self._offset(array)
        if offset is None:
            copy = self.empty(array.shape, array.dtype)
            offset = self._offset(copy)
            if offset is None:
                return None
            copy[...] = array
            array = copy
        return offset, array

    def _offset(self, array: np.ndarray) -> int | None:
        offset = array.ctypes.data - self._address
        inside = offset >= 0 and offset + array.nbytes <= self._region.size
        return int(offset) if inside and array.flags.c_contiguous else None


def room(size: int, *, arrays: int) -> int:
    """Returns the bytes that arrays take in a region, at most.

    Args:
        size: Bytes of all arrays together.
        arrays: Their number.
    """
    return size + arrays * _ALIGNMENT
