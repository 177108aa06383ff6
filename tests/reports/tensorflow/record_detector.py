"""Records the artefacts of a detector of TensorFlow's Object Detection API; see README.md. record_detector.py PYTHON

Runs train.py of the present folder, a copy of examples/stories/tensorflow_detector.py, with that Python.
"""

from __future__ import annotations

import gzip
import lzma
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
# oneDNN's convolutions end the process where memory runs out in them; TensorFlow's own raise an error.
SETTINGS = {"TF_CPU_ALLOCATOR_USE_BFC": "true", "TF_ENABLE_ONEDNN_OPTS": "0", "TF_CPU_BFC_MEM_LIMIT_IN_MB": "1024"}
# "tf_op" and its like; "id" is a random number.
_KEPT_STATISTICS = (
    *("allocator_name", "bytes_allocated", "bytes_available", "peak_bytes_in_use", "requested_bytes"),
    *("allocation_bytes", "addr", "tf_op", "region_type", "data_type", "shape", "step_num"),
)
_KEPT_EVENTS = ("MemoryAllocation", "MemoryDeallocation", "train")


def run(python: str, *arguments: str) -> bytes:
    command = [python, "train.py", *arguments]
    return subprocess.run(command, env=os.environ | SETTINGS, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout


def log(python: str, name: str, *arguments: str) -> None:
    (HERE / name).write_bytes(gzip.compress(run(python, *arguments), 9, mtime=0))


def profile(python: str, name: str, *arguments: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run(python, "--steps", "13", "--profile", folder, *arguments)
        (file,) = Path(folder).rglob("*.xplane.pb")
        (HERE / name).write_bytes(lzma.compress(only_memory(file.read_bytes())))


def only_memory(data: bytes) -> bytes:
    """The profile with its events of memory and of steps, and what is read of them; the rest is four times as large."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace.FromString(data)
    for plane in space.planes:
        kept = {number for number, one in plane.event_metadata.items() if one.name in _KEPT_EVENTS}
        read = {number for number, one in plane.stat_metadata.items() if one.name in _KEPT_STATISTICS}
        used = set()
        for line in plane.lines:
            events = [event for event in line.events if event.metadata_id in kept]
            for event in events:
                stats = [stat for stat in event.stats if stat.metadata_id in read]
                used |= {number for stat in stats for number in (stat.metadata_id, stat.ref_value)}
                del event.stats[:]
                event.stats.extend(stats)
            del line.events[:]
            line.events.extend(events)
        for number in set(plane.event_metadata) - kept:
            del plane.event_metadata[number]
        for number in set(plane.stat_metadata) - used:
            del plane.stat_metadata[number]
    return space.SerializeToString()


if __name__ == "__main__":
    log(sys.argv[1], "detector.log.gz")
    log(sys.argv[1], "detector_healed.log.gz", "--healed")
    profile(sys.argv[1], "detector.xplane.pb.xz")
    profile(sys.argv[1], "detector_healed.xplane.pb.xz", "--healed")
