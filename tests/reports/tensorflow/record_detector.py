"""Records the logs of a detector of TensorFlow's Object Detection API; see README.md. record_detector.py PYTHON

Runs train.py of the present folder, a copy of examples/stories/tensorflow_detector.py, with that Python.
"""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# oneDNN's convolutions end the process where memory runs out in them; TensorFlow's own raise an error.
SETTINGS = {"TF_CPU_ALLOCATOR_USE_BFC": "true", "TF_ENABLE_ONEDNN_OPTS": "0", "TF_CPU_BFC_MEM_LIMIT_IN_MB": "1024"}


def run(python: str, *arguments: str) -> bytes:
    command = [python, "train.py", *arguments]
    return subprocess.run(command, env=os.environ | SETTINGS, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout


def log(python: str, name: str, *arguments: str) -> None:
    (HERE / name).write_bytes(gzip.compress(run(python, *arguments), 9, mtime=0))


if __name__ == "__main__":
    log(sys.argv[1], "detector.log.gz")
    log(sys.argv[1], "detector_healed.log.gz", "--healed")
