"""Builds the site of the documents; see --help.

While documents change, `.venv/bin/mkdocs serve -f tools/site/mkdocs.yml` shows it.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import pathlib
import subprocess
import sys
from typing import NoReturn

HERE = pathlib.Path(__file__).resolve().parent


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see --help\n")


def main() -> int:
    parser = Parser(
        prog="python tools/site", description="Builds the site of the documents into build/site, without network."
    )
    parser.add_argument("--out", metavar="FOLDER", type=folder, help="write it to this folder instead")
    parser.add_argument(
        "--record",
        action="store_true",
        help="record what the example reports show anew, on the simulated GPU; builds nothing",
    )
    options = parser.parse_args()
    if options.record:
        import example_reports

        return example_reports.record()
    if importlib.util.find_spec("material") is None or importlib.util.find_spec("mkdocstrings") is None:
        parser.error("MkDocs is not installed; run tools/setup, then .venv/bin/python")
    command = [sys.executable, "-m", "mkdocs", "build", "--config-file", HERE / "mkdocs.yml"]
    command += ["--site-dir", options.out] if options.out else []
    # Material tells of a change of MkDocs that pins keep away.
    return subprocess.run(command, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}).returncode


def folder(text: str) -> str:
    """What is in the folder that a site is written to goes, so that it has to be a site or empty."""
    path = pathlib.Path(text).absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
        is_ours = (path / "search" / "search_index.json").exists() or not any(path.iterdir())
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error.strerror}") from None
    if not is_ours:
        raise argparse.ArgumentTypeError(
            f"{text} has files that are not a site's, which would be removed; name a new one"
        )
    return str(path)


if __name__ == "__main__":
    sys.exit(main())
