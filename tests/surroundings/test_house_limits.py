"""The limits of lint that are ours: each is told with its place where it is exceeded, and not before."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import house_limits  # noqa: E402


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Returns what is told of files with these texts, and asks for the exit status that belongs to it."""
    monkeypatch.chdir(tmp_path)

    def check(**texts: str) -> str:
        names = [name.replace("__", "/").replace("_dot_", ".") for name in texts]
        for name, text in zip(names, texts.values(), strict=True):
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_text(text)
        status = house_limits.main(*names)
        out = capsys.readouterr().out
        assert status == bool(out)
        return out

    return check


@pytest.mark.parametrize("name, most", [("a_dot_h", 300), ("a_dot_cc", 450), ("a_dot_py", 450), ("script", 450)])
def test_lines_of_a_file(told, name: str, most: int) -> None:
    assert told(**{name: "\n" * most}) == ""
    assert told(**{name: "\n" * (most + 1)}) == f"{name.replace('_dot_', '.')}: {most + 1} lines, limit {most}\n"


def test_lines_of_a_python_function(told) -> None:
    function = "\ndef f():\n" + "    pass\n" * 49
    assert told(script=function) == ""
    assert told(script=function + "    pass\n") == "script:2: f has 51 lines, limit 50\n"


def test_modules_of_tests_with_one_name(told) -> None:
    assert told(tests__a__conftest_dot_py="", tests__b__conftest_dot_py="", tests__a__test_x_dot_py="") == ""
    assert "tests/a/test_x.py, tests/b/test_x.py" in told(tests__a__test_x_dot_py="", tests__b__test_x_dot_py="")
