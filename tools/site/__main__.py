"""Builds the site of the documents; see --help."""

from __future__ import annotations

import argparse
import importlib.util
import logging
import os
import pathlib
import socket
import sys
from typing import NoReturn

HERE = pathlib.Path(__file__).resolve().parent
ADDRESS = "127.0.0.1"


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see --help\n")


def main() -> int:
    parser = Parser(
        prog="python tools/site", description="Builds the site of the documents into build/site, without network."
    )
    parser.add_argument("--out", metavar="FOLDER", help="write it to this folder instead")
    parser.add_argument(
        "--serve",
        metavar="PORT",
        nargs="?",
        type=port_number,
        const=8000,
        help="show it at http://127.0.0.1:PORT (default 8000) until Ctrl-C; documents, package and headers may change",
    )
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
        return serve(options.serve)
    if options.out is not None and (refused := why_not_to_write(pathlib.Path(options.out))):
        print(f"python tools/site: {options.out} {refused}", file=sys.stderr)
        return 2
    return build(options.out)


def port_number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 1 << 16):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 65535")
    return int(text)


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


def serve(port: int) -> int:
    # Before the site is built, which takes seconds.
    if refused := why_not_to_serve(port):
        print(
            f"python tools/site: port {port} cannot be used: {refused}; name another one: --serve PORT", file=sys.stderr
        )
        return 2
    import mkdocs.exceptions
    from mkdocs.commands import serve as command

    logging.basicConfig(format="%(message)s", level=logging.INFO)
    # Files beside its modules would count as changes of them.
    sys.dont_write_bytecode = True
    try:
        command.serve(str(HERE / "mkdocs.yml"), livereload=True, dev_addr=f"{ADDRESS}:{port}")
    except mkdocs.exceptions.MkDocsException as error:
        print(f"tools/site: {error}", file=sys.stderr)
        return 1
    # It returns at Ctrl-C alone.
    raise KeyboardInterrupt


def why_not_to_serve(port: int) -> str | None:
    with socket.socket() as one:
        # As the server does, so that one that has just ended is not in the way.
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((ADDRESS, port))
            one.listen()
        except OSError as error:
            return os.strerror(error.errno or 0)
    return None


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        # 128 and the signal's number, as shells count.
        sys.exit(130)
