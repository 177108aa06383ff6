"""The lint rule for classes counts the public functions that are a class's own, and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import cpp_classes  # noqa: E402


def functions(body: str, head: str = "struct Thing") -> set[str]:
    return cpp_classes.public_functions(f"namespace n {{\n{head} {{\n{body}\n}};\n}}\n")["Thing"]


@pytest.mark.parametrize(
    "declaration",
    [
        "void f();",
        "int f() const { return g(h()); }",
        "template <typename F> std::invoke_result_t<F> f(F&& call) { call(); }",
        "std::function<bool(int)> f(std::map<int, std::vector<int>> values = {}, int more = g());",
        "[[nodiscard]] static const char* f() ABSL_LOCKS_EXCLUDED(mutex_);",
        "C10_ALWAYS_INLINE void* f(int (*call)(void*));",
        "decltype(g()) f() noexcept(true);",
        "virtual bool f() { return false; }",
        "void f();\n  void f(int value);",
    ],
)
def test_a_function_counts_once(declaration: str) -> None:
    assert functions(declaration) == {"f"}


@pytest.mark.parametrize(
    "declaration",
    [
        "Thing(int value) : value_(g(value)), other_{1} {}",
        "explicit Thing(const char* text);",
        "~Thing();",
        "virtual ~Thing() = default;",
        "Thing& operator=(const Thing&) = delete;",
        "bool operator()(int value) const { return g(value); }",
        "explicit operator bool() const;",
        "void f() override { g(); }",
        "void f() final;",
        "virtual void f() = 0;",
        "void f() = delete;",
        "friend bool f(const Thing&);",
        "using Base::f;",
        "using Call = int (*)(void*);",
        "static_assert(f(1) == 2);",
        "int value = f(1);",
        "int value{f(1)};",
        "double value ABSL_GUARDED_BY(mutex_) = 1.0;",
        "decltype(&f) call;",
        "int (*call)(void*);",
        "alignas(64) int value;",
        "std::function<void()> call;",
        "struct Inner { int x; };",
        "enum class Kind : int { kOne = f(1) };",
        "// void f();",
        "/* void f(); */",
        "#define F(x) f(x)",
        "private: void f();",
        "protected: void f();",
    ],
)
def test_what_is_no_public_function_of_its_own_does_not_count(declaration: str) -> None:
    assert functions(declaration) == set()


def test_a_class_is_private_until_it_says_otherwise() -> None:
    assert functions("void f();\npublic:\nvoid g();\nprivate:\nvoid h();\npublic:\nvoid i();", "class Thing") == {
        "g",
        "i",
    }


def test_what_follows_a_body_counts() -> None:
    assert functions('void f() { const char* brace = "}"; }\nvoid g() { if (1\'000) {} }\nvoid h();') == {"f", "g", "h"}


def test_a_class_within_a_class_counts_for_itself() -> None:
    found = cpp_classes.public_functions("class A {\npublic:\nvoid f();\nstruct B { void g(); void h(); };\n};")
    assert found == {"A": {"f"}, "B": {"g", "h"}}


@pytest.mark.parametrize("head", ["class [[nodiscard]] Thing final : public Base<int>", "class Thing : private Other"])
def test_bases_and_attributes_hide_no_class(head: str) -> None:
    assert functions("public:\nvoid f();", head) == {"f"}


def test_a_test_fixture_and_an_enumeration_are_no_class() -> None:
    assert not cpp_classes.public_functions(
        "class T : public ::testing::Test { public: void f(); }; enum class E { kF };"
    )
