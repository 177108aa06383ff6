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
    parser.add_argument("--out", metavar="FOLDER", type=folder, help="write it to this folder instead")
    parser.add_argument(
        "--serve",
        metavar="PORT",
        nargs="?",
        type=port,
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
        import example_reports

        return example_reports.record()
    if importlib.util.find_spec("material") is None or importlib.util.find_spec("mkdocstrings") is None:
        parser.error("MkDocs is not installed; run tools/setup, then .venv/bin/python")
    # Material tells of a change of MkDocs that pins keep away.
    os.environ["NO_MKDOCS_2_WARNING"] = "1"
    # Files beside its modules would count as changes of them.
    sys.dont_write_bytecode = True
    return serve(options.serve) if options.serve else build(options.out)


def port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 1 << 16):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 65535")
    with socket.socket() as tried:
        # As the server does, so that one that has just ended is not in the way.
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((ADDRESS, int(text)))
            tried.listen()
        except OSError as error:
            raise argparse.ArgumentTypeError(f"port {text} cannot be used: {os.strerror(error.errno or 0)}") from None
    return int(text)


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


def build(out: str | None) -> int:
    import mkdocs.exceptions
    from mkdocs.commands import build as command
    from mkdocs.config import load_config

    # A warning counts only where it is also told.
    logging.basicConfig(format="tools/site: %(message)s", level=logging.WARNING)
    try:
        config = load_config(str(HERE / "mkdocs.yml"), **({"site_dir": out} if out else {}))
        config.plugins.on_startup(command="build", dirty=False)
        command.build(config)
        config.plugins.on_shutdown()
    except (mkdocs.exceptions.MkDocsException, OSError) as error:
        print(f"tools/site: {error}", file=sys.stderr)
        return 1
    return 0


def serve(number: int) -> int:
    import mkdocs.exceptions
    from mkdocs.commands import serve as command

    logging.basicConfig(format="%(message)s", level=logging.INFO)
    try:
        command.serve(str(HERE / "mkdocs.yml"), livereload=True, dev_addr=f"{ADDRESS}:{number}")
    except mkdocs.exceptions.MkDocsException as error:
        print(f"tools/site: {error}", file=sys.stderr)
        return 1
    # It returns at Ctrl-C alone.
    raise KeyboardInterrupt


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        # 128 and the signal's number, as shells count.
        sys.exit(130)
