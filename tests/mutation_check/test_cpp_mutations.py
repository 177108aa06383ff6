"""The mutation check itself: a small function with every mutant behind a switch, compiled once, wrong in each way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools" / "mutation"))
import packages

if not packages.find():
    pytest.skip("tools/mutation/mutants --list installs what reads C++", allow_module_level=True)
import cpp_mutations

SOURCE = b"""
namespace {
constexpr int kMost = 10;  // no mutant: not in a function
[[nodiscard]] int Clamp(int value, int& calls) {
  ++calls;
  if (value > kMost && calls != 0) {
    return kMost;
  }
  return value < 0 ? 0 : value;
}
void CheckInvariants() { int x = 1 + 2; (void)x; }  // no mutant: it is what tests
}  // namespace
int main(int count, char**) {
  int calls = 0;
  return Clamp(count + 10, calls) * 10 + calls;
}
"""


def mutants() -> list[cpp_mutations.Mutant]:
    found = cpp_mutations.find("allocator/small.cc", SOURCE)
    for number, mutant in enumerate(found, 1):
        mutant.number = number
    return found


def test_each_kind_of_mistake_is_found_once_with_its_place() -> None:
    described = [mutant.describe() for mutant in mutants()]
    assert "allocator/small.cc:5: Clamp: ++calls;  ->  (left out)" in described
    assert "allocator/small.cc:5: Clamp: ++calls  ->  --calls" in described
    assert "allocator/small.cc:6: Clamp: value > kMost && calls != 0  ->  false" in described
    assert "allocator/small.cc:6: Clamp: value > kMost && calls != 0  ->  value > kMost" in described
    assert "allocator/small.cc:6: Clamp: value > kMost  ->  value >= kMost" in described
    assert "allocator/small.cc:9: Clamp: value < 0  ->  true" in described
    assert "allocator/small.cc:15: main: count + 10  ->  count - 10" in described
    assert not [one for one in described if "CheckInvariants" in one or "kMost = 10" in one]
    assert len({mutant.key for mutant in mutants()}) == len(described)


def test_one_build_is_right_without_a_mutant_and_wrong_with_each(tmp_path: Path) -> None:
    found = mutants()
    (tmp_path / "small.cc").write_text(cpp_mutations.render(SOURCE, found))
    (tmp_path / "switches.cc").write_text(cpp_mutations.SWITCHES % len(found))
    line = ["g++", "-std=c++20", "-w", "-o", "small", "small.cc", "switches.cc"]
    subprocess.run(line, cwd=tmp_path, check=True)

    def outcome(number: int, arguments: int) -> int:
        environment = {"FRUGAL_MUTANT": str(number), "FRUGAL_MUTANTS_REACHED": str(tmp_path / "reached")}
        return subprocess.run([tmp_path / "small", *["x"] * arguments], env=environment).returncode

    right = [outcome(0, arguments) for arguments in (0, 1)]
    assert right == [101, 101]
    reached = (tmp_path / "reached").read_bytes()
    assert sum(reached) > len(found) // 2
    changed = [mutant for mutant in found if [outcome(mutant.number, n) for n in (0, 1)] != right]
    # Values from 11 up see only some of the mistakes: what is beyond the early return is never reached.
    assert {mutant.line for mutant in changed} == {5, 6, 14, 15}
    assert len(changed) >= 8


def test_a_mutant_that_does_not_compile_is_named_by_its_line() -> None:
    complaints = "allocator/small.cc:1000017:9: error: no match\nallocator/small.cc:12:3: note: here\n"
    assert cpp_mutations.refused(complaints) == {17}
