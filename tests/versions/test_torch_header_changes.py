"""tools/torch_header_changes, on headers made up for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "torch_header_changes"

OLD_ALLOCATOR = """
#pragma once
#include <c10/core/Device.h>
namespace c10 {
struct Allocator {
  virtual ~Allocator() = default;
  virtual DataPtr allocate(size_t n) = 0;  // bytes
  virtual bool same() { return true; }
};
}  // namespace c10
"""
NEW_ALLOCATOR = """
#pragma once
#include <c10/core/Device.h>
namespace c10 {
struct Allocator {
  virtual ~Allocator() = default;
  /* another comment */
  virtual DataPtr allocate(size_t n, bool zeroed = false) = 0;
  virtual bool same() {
    if (true) { return true; }
    return false;
  }
};
}  // namespace c10
"""
OLD_CUDA = """
namespace c10::cuda::CUDACachingAllocator {
struct TraceEntry { int64_t size_; enum Action { ALLOC, OOM }; };
C10_CUDA_API size_t gone();
class C10_CUDA_API CUDAAllocator : public c10::Allocator {
 public:
  virtual void emptyCache() = 0;
};
}
"""
NEW_CACHING = """
namespace c10::CachingDeviceAllocator {
struct TraceEntry { int64_t size_; std::string notes_; enum Action { ALLOC, OOM, ANNOTATE }; };
}
"""
NEW_CUDA = """
namespace c10::cuda::CUDACachingAllocator {
class C10_CUDA_API CUDAAllocator : public c10::Allocator {
 public:
  virtual void emptyCache() = 0;
  virtual std::vector<StreamSegmentSize> getExpandableSegmentSizes(
      c10::DeviceIndex device) = 0;
  virtual bool neverHeardOf(std::pair<size_t, size_t> range = {1, 2}) { return false; }
};
}
"""


def write_torch(folder: Path, **headers: str) -> Path:
    names = {
        "allocator": "c10/core/Allocator.h",
        "caching": "c10/core/CachingDeviceAllocator.h",
        "cuda": "c10/cuda/CUDACachingAllocator.h",
        "device": "c10/core/Device.h",
    }
    for key, name in names.items():
        path = folder / "include" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(headers.get(key, ""))
    return folder


def changes(old: Path, new: Path) -> str:
    done = subprocess.run([sys.executable, TOOL, old, new], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_members_that_changed_are_listed(tmp_path: Path) -> None:
    old = write_torch(tmp_path / "old", allocator=OLD_ALLOCATOR, cuda=OLD_CUDA, device="struct Device {};\n")
    new = write_torch(tmp_path / "new", allocator=NEW_ALLOCATOR, caching=NEW_CACHING, cuda=NEW_CUDA)
    text = changes(old, new)
    assert (
        "~ virtual DataPtr allocate(size_t n) = 0\n    virtual DataPtr allocate(size_t n, bool zeroed = false) = 0"
        in text
    )
    assert "+ virtual std::vector<StreamSegmentSize> getExpandableSegmentSizes(c10::DeviceIndex device) = 0" in text
    assert "- C10_CUDA_API size_t gone()" in text
    # Bodies and comments are no change, and a class that moved is not a new one.
    assert "same" not in text
    assert "c10::CachingDeviceAllocator::TraceEntry (was c10::cuda::CUDACachingAllocator::TraceEntry)" in text
    assert "size_" not in text.replace("size_t", "")
    assert "+ std::string notes_" in text
    assert "+ ANNOTATE" in text
    assert "   1 lines  c10/core/Device.h" in text


def test_each_change_names_the_files_that_it_concerns(tmp_path: Path) -> None:
    old = write_torch(tmp_path / "old", cuda=OLD_CUDA)
    new = write_torch(tmp_path / "new", caching=NEW_CACHING, cuda=NEW_CUDA)
    lines = changes(old, new).splitlines()
    after = {line.strip(): lines[at + 1].strip() for at, line in enumerate(lines[:-1])}
    known = "+ virtual std::vector<StreamSegmentSize> getExpandableSegmentSizes(c10::DeviceIndex device) = 0"
    assert "native_forwarder.h" in after[known]
    unknown = next(line for line in after if "neverHeardOf" in line)
    assert after[unknown] == "not in bindings/"


def test_equal_headers_have_no_changes(tmp_path: Path) -> None:
    old = write_torch(tmp_path / "old", allocator=OLD_ALLOCATOR, cuda=OLD_CUDA)
    new = write_torch(tmp_path / "new", allocator=OLD_ALLOCATOR, cuda=OLD_CUDA)
    assert [line for line in changes(old, new).splitlines() if line[:3] in ("  +", "  -", "  ~")] == []
