"""What every test needs before the package is imported."""

import hashlib
import os
import pathlib

_ROOT = pathlib.Path(__file__).parents[1]


def _kernels_hash() -> str:
    """Returns a hash of all sources that numba compiles from."""
    digest = hashlib.sha256()
    for path in sorted((_ROOT / "elastic_keras" / "ps").rglob("*.py")):
        digest.update(path.read_bytes())
    digest.update((_ROOT / "elastic_keras" / "routing.py").read_bytes())
    return digest.hexdigest()[:16]


# numba caches a compiled function until its own file changes, not until a
# function does that it calls from another file.
os.environ.setdefault(
    "NUMBA_CACHE_DIR",
    str(_ROOT / ".pytest_cache" / "numba" / _kernels_hash()),
)
# As in a shard's process: see `elastic_keras.ps.forked`.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# Several processes at once on few cores: more threads only get in the way.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")
