import subprocess
import sys

import pytest

from elastic_keras.worker.log_noise import quiet

ABOUT = "WARNING: All log messages before absl::InitializeLog() is called\n"
INFO = "I0000 00:00:1796115244.923549    4459 port.cc:153] oneDNN is on.\n"
OLD_INFO = "2024-05-01 08:00:00.123456: I tensorflow/core/port.cc:153] On.\n"
WARNING = "W0000 00:00:1796115244.923549    4459 a.cc:1] Slow.\n"
ERROR = "E0000 00:00:1796115244.923549    4459 a.cc:1] Out of memory.\n"
NO_GPU = (
    "E0000 00:00:1796115246.477160    4459 c.cc:52] failed call to cuInit\n"
)
FATAL = "F0000 00:00:1796115246.477160    4459 c.cc:52] Needs AVX.\n"
OURS = "2026-12-01 08:54:06,539 INFO elastic_keras.worker: Joined\n"


@pytest.mark.parametrize(
    ("level", "kept"),
    [
        (0, [ABOUT, INFO, OLD_INFO, WARNING, ERROR, NO_GPU, FATAL, OURS]),
        (1, [WARNING, ERROR, NO_GPU, FATAL, OURS]),
        (2, [ERROR, FATAL, OURS]),
        (3, [FATAL, OURS]),
    ],
)
def test_the_level_says_what_stays(level, kept):
    said = [ABOUT, INFO, OLD_INFO, WARNING, ERROR, NO_GPU, FATAL, OURS]
    assert quiet("".join(said), level) == "".join(kept)


_CODE = """
import os, sys
from elastic_keras.worker.log_noise import without_noise
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
os.write(2, sys.argv[1].encode())
with without_noise():
    os.write(2, sys.argv[1].encode())
    os.write(2, b"Ours.\\n")
    if sys.argv[2] == "dies":
        os.kill(os.getpid(), 9)
os.write(2, b"After.\\n")
"""


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("lives", ["Before.", INFO.strip(), "Ours.", "After."]),
        ("dies", ["Before.", INFO.strip(), INFO.strip(), "Ours."]),
    ],
)
@pytest.mark.parametrize("mode", ["ab", "r+b"])
def test_only_the_blocks_part_of_the_log_is_cleared(
    tmp_path, how, expected, mode
):
    log = tmp_path / "worker.log"
    log.write_text("Before.\n")
    with open(log, mode) as file:
        file.seek(0, 2)
        command = [sys.executable, "-c", _CODE, INFO, how]
        subprocess.run(command, stderr=file, check=False)
    assert log.read_text().splitlines() == expected


def test_a_pipe_is_left_alone():
    done = subprocess.run(
        [sys.executable, "-c", _CODE, INFO, "lives"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.splitlines() == [
        INFO.strip(),
        INFO.strip(),
        "Ours.",
        "After.",
    ]
