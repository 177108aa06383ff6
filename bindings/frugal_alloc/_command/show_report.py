"""``frugal-alloc report``: what a run reported about its memory."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from .._arguments import Parser
from .._messages import Refused
from .._report import compare, files, join, text, viz
from . import report_files


def main(arguments: list[str]) -> int:
    parser = Parser(
        "frugal-alloc report",
        description="Prints a report that a run has written (setting report_dir, or frugal_alloc.report().to_json()); "
        "the files of several ranks become one. TensorFlow's logs with a dump of its BFC allocator, or with memory "
        "printed at each step, are read, too.",
    )
    parser.add_argument("files", metavar="FILE", nargs="+", help="a report, or one of each rank of a run")
    parser.add_argument("--compare", metavar="OTHER", nargs="+", help="print what changed from FILE to this run")
    parser.add_argument("--html", metavar="OUT", help="write FILE's report as a page to this file")
    parser.add_argument(
        "--memory-viz", metavar="OUT", help="write FILE's memory as a pickle for pytorch.org/memory_viz"
    )
    parser.add_argument(
        "--json", action="store_true", help="print JSON: the report, joined and checked, or the changes"
    )
    options = parser.parse_args(arguments)
    show(options.files, options.compare, options.html, options.memory_viz, options.json)
    return 0


def show(
    paths: list[str], compare_with: list[str] | None, html: str | None, memory_viz: str | None, as_json: bool
) -> None:
    """Prints the report in these files, which are of one run, or how it differs from another run's; or writes what is
    to be written: a page, and a pickle for PyTorch's memory_viz.

    Raises:
        Refused: a file is no report, the files do not belong together, or the page cannot be written.
    """
    try:
        document = join.join([report_files.read(path) for path in paths])
        other = join.join([report_files.read(path) for path in compare_with]) if compare_with is not None else None
    except (report_files.ReportError, join.JoinError) as error:
        raise Refused(str(error)) from None
    if html is not None:
        _write(html, _page(document))
    if memory_viz is not None:
        _write(memory_viz, _pickle(document))
    if other is not None:
        changes = compare.compare(document, other)
        _print(json.dumps(changes, indent=1) + "\n" if as_json else compare.to_text(changes))
    elif as_json:
        _print(files.to_json(document))
    elif html is None and memory_viz is None:
        _print(text.render(document, colour=sys.stdout.isatty() and "NO_COLOR" not in os.environ))


def _page(document: dict[str, Any]) -> bytes:
    page = files.to_html(document)
    if page is None:
        raise Refused("a page needs jinja2; pip install jinja2")
    return page.encode()


def _pickle(document: dict[str, Any]) -> bytes:
    if len(document["ranks"]) > 1:
        raise Refused("memory_viz shows one process; name the report of one rank")
    return viz.to_pickle(document)


def _write(path: str, data: bytes) -> None:
    try:
        files.write_bytes(path, data)
    except OSError as error:
        raise Refused(f"{path} cannot be written: {error.strerror or error}") from None
    print(f"wrote {path}", file=sys.stderr)


def _print(content: str) -> None:
    # A terminal or pipe that knows ASCII only gets question marks, not an error.
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    sys.stdout.write(content)
