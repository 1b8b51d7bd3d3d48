"""What TensorFlow says at its start, and what a person gets to read."""

import subprocess
import sys

_CODE = """
import os
from elastic_keras.checking.quiet import start_tensorflow
from elastic_keras.config import JobConfig
from elastic_keras.worker import main
from elastic_keras.worker.log_noise import without_noise

def set_up(config):
    with without_noise():
        os.write(2, b"I0000 00:00:1.5  1 a.cc:1] chatter\\n")
        os.write(2, b"read this\\n")

main.set_up_tensorflow = set_up
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
start_tensorflow(JobConfig())
os.write(2, b"afterwards")
"""


def test_chatter_is_left_out_and_the_rest_is_shown():
    done = subprocess.run(
        [sys.executable, "-c", _CODE], capture_output=True, check=True
    )
    assert done.stderr == b"read this\nafterwards"
