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


def test_public_functions_of_a_cpp_class(told) -> None:
    functions = "".join(f"  void F{number}();\n" for number in range(15))
    assert told(a_dot_h=f"\nclass A {{\n public:\n{functions}}};\n") == ""
    assert told(a_dot_h=f"\nclass A {{\n public:\n{functions}  int G();\n}};\n") == (
        "a.h:2: A has 16 public functions, limit 15\n"
    )


def functions(body: str, head: str = "struct Thing") -> set[str]:
    tree = house_limits.CPP.parse(house_limits.NOT_COUNTED.sub("", f"{head} {{\n{body}\n}};").encode())
    return house_limits.public_functions(tree.root_node.children[0])[1]


@pytest.mark.parametrize(
    "declaration",
    [
        "void f(); void f(int value);",
        "template <typename F> void f(F&& call) { call(); }",
        "[[nodiscard]] static const char* f() ABSL_LOCKS_EXCLUDED(mutex_);",
        "virtual const Thing& f() const { return g(); }",
        "std::function<bool(int)> f(std::map<int, int> values = {}) noexcept;",
        "void f(); private: void g(); protected: void h();",
        "struct Inner { void g(); }; void f();",
    ],
)
def test_a_function_counts_once(declaration: str) -> None:
    assert functions(declaration) == {"f"}


@pytest.mark.parametrize(
    "declaration",
    [
        "explicit Thing(int value) : value_(g(value)) {}",
        "virtual ~Thing() = default;",
        "bool operator()(int value) const { return g(value); }",
        "explicit operator bool() const;",
        "void f() override { g(); }",
        "virtual void f() = 0;",
        "void f() = delete;",
        "friend bool f(const Thing&);",
        "const Part& part() const { return part_; }",
        "double value ABSL_GUARDED_BY(mutex_) = g(1);",
        "int (*call)(void*);",
        "// void f();",
    ],
)
def test_what_is_no_public_function_of_its_own_does_not_count(declaration: str) -> None:
    assert functions(declaration) == set()


def test_modules_of_tests_with_one_name(told) -> None:
    assert told(tests__a__conftest_dot_py="", tests__b__conftest_dot_py="", tests__a__test_x_dot_py="") == ""
    assert "tests/a/test_x.py, tests/b/test_x.py" in told(tests__a__test_x_dot_py="", tests__b__test_x_dot_py="")
