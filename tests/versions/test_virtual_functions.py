"""Every virtual function of every torch's allocator is ours or forwarded: some of the defaults throw."""

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


@pytest.mark.parametrize("version", torch_sdk.versions())
def test_each_virtual_function_is_overridden(version: str) -> None:
    functions = virtual_functions(torch_sdk.torch(version) / "include")
    assert {"allocate", "raw_deleter", "emptyCache", "getDeviceStats", "snapshot"} <= functions
    adapter = ROOT / "bindings" / "adapter"
    text = "\n".join((adapter / name).read_text() for name in ("native_forwarder.h", "torch_allocator.h"))
    assert functions - set(OVERRIDDEN.findall(text)) == DEFAULTS_ARE_RIGHT
