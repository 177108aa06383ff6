"""Builds the site of the documents; see --help."""

from __future__ import annotations

import argparse
import importlib.util
import logging
import os
import pathlib
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
    parser.add_argument("--out", metavar="FOLDER", help="write it to this folder instead")
    parser.add_argument("--serve", action="store_true", help="show it at http://127.0.0.1:8000, anew after each change")
    parser.add_argument(
        "--record",
        action="store_true",
        help="record what the example reports show anew, on the simulated GPU; builds nothing",
    )
    options = parser.parse_args()
    if options.record:
        from site_parts import record_examples

        return record_examples.main()
    if importlib.util.find_spec("material") is None or importlib.util.find_spec("mkdocstrings") is None:
        print("python tools/site: MkDocs is not installed; run tools/setup, then .venv/bin/python", file=sys.stderr)
        return 2
    # Material tells of a change of MkDocs that pins keep away.
    os.environ["NO_MKDOCS_2_WARNING"] = "1"
    if options.serve:
        return serve()
    if options.out is not None and (refused := why_not_to_write(pathlib.Path(options.out))):
        print(f"python tools/site: {options.out} {refused}", file=sys.stderr)
        return 2
    return build(options.out)


def why_not_to_write(folder: pathlib.Path) -> str | None:
    """What is in the folder that a site is written to goes, so that it has to be a site or empty."""
    if not os.path.lexists(folder):
        above = next(one for one in folder.absolute().parents if os.path.lexists(one))
        return None if above.is_dir() and os.access(above, os.W_OK) else f"cannot be made in {above}"
    if not folder.is_dir():
        return "is no folder"
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return "cannot be written to"
    if any(folder.iterdir()) and not (folder / "search" / "search_index.json").exists():
        return "has files that are not a site's, which would be removed; name a new folder"
    return None


def build(folder: str | None) -> int:
    import mkdocs.exceptions
    from mkdocs.commands import build as command
    from mkdocs.config import load_config

    # A warning counts only where it is also told.
    logging.basicConfig(format="tools/site: %(message)s", level=logging.WARNING)
    settings = {"site_dir": os.path.abspath(folder)} if folder else {}
    try:
        config = load_config(str(HERE / "mkdocs.yml"), **settings)
        config.plugins.on_startup(command="build", dirty=False)
        command.build(config)
        config.plugins.on_shutdown()
    except mkdocs.exceptions.MkDocsException as error:
        print(f"tools/site: {error}", file=sys.stderr)
        return 1
    return 0


def serve() -> int:
    from mkdocs.commands import serve as command

    logging.basicConfig(format="%(message)s", level=logging.INFO)
    command.serve(str(HERE / "mkdocs.yml"), livereload=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
