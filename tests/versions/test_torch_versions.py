"""tools/torch_versions.txt, and the places that have to agree with it.

Every virtual function of each torch's allocator is ours or forwarded: some of the defaults throw.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import torch_sdk  # noqa: E402

HEADERS = ("c10/core/Allocator.h", "c10/core/CachingDeviceAllocator.h", "c10/cuda/CUDACachingAllocator.h")
CLASSES = ("Allocator", "DeviceAllocator", "CUDAAllocator")
OVERRIDDEN = re.compile(r"(?<!~)\b(\w+)\([^;{}]*\)[^;{}]*\b(?:override|final)\b")
VERSIONS = list(torch_sdk.versions())
# Inherited as it is: whether a DataPtr's pointer is its own context, as it is with ours.
DEFAULTS_ARE_RIGHT = {"is_simple_data_ptr"}


def virtual_functions(include: Path) -> set[str]:
    """But for destructors."""
    text = re.sub(
        r"//[^\n]*|/\*.*?\*/", "", "\n".join((include / header).read_text() for header in HEADERS), flags=re.S
    )
    functions: set[str] = set()
    for name in CLASSES:
        [body] = re.findall(rf"^(?:struct|class)\b[^;{{(:]*\b{name}\b[^;{{(]*\{{\n(.*?)^\}};", text, re.M | re.S)
        functions |= {*OVERRIDDEN.findall(body), *re.findall(r"\bvirtual\b[^;{}(~]*?(\w+)\(", body)}
    return functions


@pytest.mark.parametrize("version", VERSIONS)
def test_each_virtual_function_is_overridden(version: str) -> None:
    functions = virtual_functions(torch_sdk.torch(version) / "include")
    assert {"allocate", "raw_deleter", "emptyCache", "getDeviceStats", "snapshot"} <= functions
    adapter = ROOT / "bindings" / "adapter"
    text = "\n".join((adapter / name).read_text() for name in ("native_forwarder.h", "torch_allocator.h"))
    assert functions - set(OVERRIDDEN.findall(text)) == DEFAULTS_ARE_RIGHT


def required(name: str) -> str:
    match = re.search(r"^torch==(\S+)$", (ROOT / "tools" / name).read_text(), re.MULTILINE)
    assert match
    return match[1]


def test_there_is_one_version_of_each_minor_without_a_gap() -> None:
    minors = [tuple(map(int, version.split(".")[:2])) for version in VERSIONS]
    assert minors == [(2, minor) for minor in range(9, 9 + len(minors))]


def test_environments_have_listed_versions() -> None:
    assert required("requirements.txt") in VERSIONS
    assert required("requirements-newest.txt") == VERSIONS[-1]


def test_documentation_has_a_line_for_each() -> None:
    text = (ROOT / "docs" / "compatibility.md").read_text()
    assert re.findall(r"^\| (\d+\.\d+\.\d+) \|", text, re.MULTILINE) == VERSIONS
