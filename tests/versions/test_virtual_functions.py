"""Every virtual function of every torch's allocator is ours or forwarded: some of the defaults throw."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLASSES = ("c10::Allocator", "c10::DeviceAllocator", "c10::cuda::CUDACachingAllocator::CUDAAllocator")
# Inherited as it is: whether a DataPtr's pointer is its own context, as it is with ours.
DEFAULTS_ARE_RIGHT = {"is_simple_data_ptr"}


def load(name: str) -> ModuleType:
    """A module or program of tools/."""
    loader = importlib.machinery.SourceFileLoader(name, str(ROOT / "tools" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    sys.modules[name] = module
    loader.exec_module(module)
    return module


sys.path.insert(0, str(ROOT / "tools"))
torch_sdk = load("torch_sdk.py")
header_changes = load("torch_header_changes")
sys.path.pop(0)


def virtual_functions(include: Path) -> set[str]:
    text = "\n".join((include / header).read_text() for header in header_changes.HEADERS)
    scopes = header_changes.scopes(text)
    members = [member for name in CLASSES for member in scopes[name].members]
    found = {header_changes.member_name(m) for m in members if re.search(r"\bvirtual\b|\boverride\b|\bfinal\b", m)}
    return {name for name in found if not name.startswith("~")}


@pytest.mark.parametrize("version", torch_sdk.versions())
def test_each_virtual_function_is_overridden(version: str) -> None:
    functions = virtual_functions(torch_sdk.torch(version) / "include")
    assert {"allocate", "raw_deleter", "emptyCache", "getDeviceStats", "snapshot"} <= functions
    text = "\n".join(
        (ROOT / "bindings" / "torch" / name).read_text() for name in ("native_forwarder.h", "torch_allocator.h")
    )
    ours = set(re.findall(r"\b(\w+)\([^;{}]*\)[^;{}]*\b(?:override|final)\b", text))
    assert functions - ours == DEFAULTS_ARE_RIGHT
