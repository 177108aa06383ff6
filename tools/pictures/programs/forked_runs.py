"""Runs a program once for each list of arguments that stands on standard input, a line of JSON each.

    python forked_runs.py PROGRAM MODULES < ARGUMENTS

Prints, a line of JSON for each run, its exit status, what it said, and what it wrote to the file that --json names.
Before the arguments NAME=VALUE may stand, as for a shell. Each run is a process of its own. torch and the MODULES,
joined by commas, are imported once for all of them: that takes longer than a short run, and starts no CUDA.
"""

import contextlib
import importlib
import json
import os
import pathlib
import runpy
import sys
import tempfile
import traceback
from typing import Any


def run(program: pathlib.Path, arguments: list[str], folder: pathlib.Path) -> dict[str, Any]:
    file, said = folder / "written.json", folder / "said"
    process = os.fork()
    if process == 0:
        # Reports go there; paths in them begin at the working directory.
        os.environ["FRUGAL_ALLOC_CONF"] = f"report_dir:{folder}"
        while arguments and not arguments[0].startswith("-"):
            name, _, os.environ[name] = arguments[0].partition("=")
            arguments = arguments[1:]
        os._exit(_status(program, [*arguments, "--json", str(file)], said))
    _, ended = os.waitpid(process, 0)
    written = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return {"status": os.waitstatus_to_exitcode(ended), "said": said.read_text(encoding="utf-8"), **written}


def _status(program: pathlib.Path, arguments: list[str], said: pathlib.Path) -> int:
    sys.argv = [str(program), *arguments]
    with (
        said.open("w", encoding="utf-8") as stream,
        contextlib.redirect_stderr(stream),
        contextlib.redirect_stdout(stream),
    ):
        try:
            runpy.run_path(str(program), run_name="__main__")
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
            return 1
    return 0


def main() -> None:
    program = pathlib.Path(sys.argv[1]).resolve()
    sys.path.insert(0, str(program.parent))
    for module in sys.argv[2].split(","):
        importlib.import_module(module)
    for line in sys.stdin:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(run(program, json.loads(line), pathlib.Path(folder))), flush=True)


if __name__ == "__main__":
    main()
