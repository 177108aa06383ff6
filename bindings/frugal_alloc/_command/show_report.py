"""``frugal-alloc report``: what a run reported about its memory."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from .._common.arguments import Parser
from .._common.messages import Refused
from .._planning.fit import text as fit_text
from .._planning.fit.verdict import Verdict
from .._report import compare, files, join, text
from . import report_files


def add(parser: Parser) -> None:
    parser.description = (
        "Prints a report that a run has written (setting report_dir, or frugal_alloc.report().to_json()); the files of "
        "several ranks become one. TensorFlow's logs with a dump of its BFC allocator, or with memory printed at each "
        "step, are read, too, and what fit --json has printed."
    )
    parser.add_argument("files", metavar="FILE", nargs="+", help="a report, or one of each rank of a run")
    output = parser.add_argument_group("output")
    output.add_argument("--compare", metavar="OTHER", nargs="+", help="print what changed from FILE to this run")
    output.add_argument("--html", metavar="OUT", help="write the report, or what changed, as a page to this file")
    output.add_argument(
        "--memory-viz", metavar="OUT", help="write FILE's memory as a pickle for pytorch.org/memory_viz"
    )
    output.add_argument(
        "--json", action="store_true", help="print JSON: the report, joined and checked, or the changes"
    )


def carry_out(options: argparse.Namespace) -> int:
    if verdicts := report_files.verdicts_in(options.files[0]):
        return _of_fit(verdicts, options)
    document = join.join([report_files.read(path) for path in options.files])
    other = join.join([report_files.read(path) for path in options.compare]) if options.compare else None
    changes = compare.compare(document, other) if other is not None else None
    if options.html is not None:
        _write(options.html, _page(document, changes))
    if options.memory_viz is not None:
        _write(options.memory_viz, _pickle(document))
    if options.json:
        _print(files.to_json(document) if changes is None else json.dumps(changes, indent=1) + "\n")
    elif changes is not None and options.html is None:
        _print(compare.to_text(changes))
    elif options.html is None and options.memory_viz is None:
        _print(text.render(document, colour=sys.stdout.isatty() and "NO_COLOR" not in os.environ))
    return 0


def _of_fit(verdicts: Sequence[Verdict], options: argparse.Namespace) -> int:
    if len(options.files) > 1 or options.compare or options.memory_viz or options.json:
        raise Refused(f"{options.files[0]} is a verdict of fit, which is printed, or written with --html, alone")
    if options.html is not None:
        from .._planning.fit import page

        _write(options.html, page.render(verdicts).encode())
    else:
        fit_text.write(verdicts, sys.stdout)
    return 0


def _page(document: dict[str, Any], changes: dict[str, Any] | None) -> bytes:
    try:
        from .._report import comparison_page, page
    except ImportError:
        raise Refused("a page needs jinja2; pip install jinja2") from None
    return (page.render(document) if changes is None else comparison_page.render(changes)).encode()


def _pickle(document: dict[str, Any]) -> bytes:
    if len(document["ranks"]) > 1:
        raise Refused("memory_viz shows one process; name the report of one rank")
    return files.to_memory_viz(document)


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
