"""Leaves of a Kineto trace what a replay reads of it: ``python -m bench.lean_trace TRACE LEAN.json.xz``.

Entries about memory stay as they are, in their order, and so does what the trace says of itself; the rest, nine tenths
of a usual one, is left out.
"""

from __future__ import annotations

import json
import lzma
import sys
from pathlib import Path

from frugal_alloc._common import recorded_files
from frugal_alloc._common.arguments import refuse


def lean(trace: dict) -> dict:
    kept = [entry for entry in trace["traceEvents"] if isinstance(entry, dict) and entry.get("name") == "[memory]"]
    return {**trace, "traceEvents": kept}


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        return refuse("lean_trace", "name the trace and the file to write")
    source, target = map(Path, arguments)
    try:
        trace = recorded_files.parse_values(recorded_files.read_bytes(source), source)
        if not isinstance(trace, dict) or not isinstance(trace.get("traceEvents"), list):
            raise recorded_files.UnreadableFile(f"{source} is no Kineto trace: it has no traceEvents")
        packed = lzma.compress(json.dumps(lean(trace), separators=(",", ":")).encode())
        target.write_bytes(packed)
    except recorded_files.UnreadableFile as error:
        return refuse("lean_trace", error)
    except OSError as error:
        return refuse("lean_trace", f"{target} cannot be written: {error.strerror}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
