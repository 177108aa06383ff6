"""The example reports: pages that the package draws from what real runs have reported.

What was recorded lies in docs/reports/examples as JSON, as `--json` and report_dir write it; record_examples.py
makes it.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import json
import pathlib
import sys
import types
import typing
from typing import Any

from . import DOCS, PACKAGE

sys.path.append(str(PACKAGE.parent))
from frugal_alloc._fit.output import page as fit_page
from frugal_alloc._fit.verdict import Verdict
from frugal_alloc._report import page as report_page

FOLDER = DOCS / "reports" / "examples"
FIT = "fit"
NAMES = ("leak", "out_of_memory", FIT, "tensorflow")


def replaced() -> dict[str, str]:
    """By recorded document below docs/, the page that the site shows in its place."""
    return {_name(name, "json"): _name(name, "html") for name in NAMES if document(name).exists()}


def pages() -> dict[str, str]:
    """By name below docs/, the page."""
    return {_name(name, "html"): page(name) for name in NAMES if document(name).exists()}


def document(name: str) -> pathlib.Path:
    return FOLDER / f"{name}.json"


def page(name: str) -> str:
    told = json.loads(document(name).read_text(encoding="utf-8"))
    if name != FIT:
        return report_page.render(told)
    return fit_page.render([formed(Verdict, verdict) for verdict in told["verdicts"]])


def formed(kind: Any, value: Any) -> Any:
    """What JSON has of a dataclass and of all below it, as that again; keys that it does not have are left out."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        kinds = _kinds(kind)
        return kind(**{name: formed(kinds[name], one) for name, one in value.items() if name in kinds})
    if origin is tuple:
        return tuple(formed(arguments[0], one) for one in value)
    if origin in (types.UnionType, typing.Union):
        return None if value is None else formed(arguments[0], value)
    if origin is collections.abc.Mapping:
        return dict(value)
    return value


@functools.cache
def _kinds(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _name(name: str, suffix: str) -> str:
    return (FOLDER / f"{name}.{suffix}").relative_to(DOCS).as_posix()
