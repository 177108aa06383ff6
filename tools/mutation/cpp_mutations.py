"""Small wrong changes of C++ source, all in one compiled text, of which one at a time can be switched on.

A mutant is one such change: a condition that is always false, a `<` that is a `<=`, a statement left out. The source is
read as a syntax tree (tree-sitter), so a change never crosses an operator's precedence, and written back with
every mutant in place behind a switch. One build then serves all of them; a compiler's run for each would take hours.
"""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator

import tree_sitter
import tree_sitter_cpp

PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_cpp.language()))
# Written at the head of every file that has mutants. `reached` says afterwards which were evaluated at all.
PROLOGUE = """namespace frugal_mutants {
extern const int active;
extern unsigned char* const reached;
inline bool Is(int mutant) {
  reached[mutant] = 1;
  return active == mutant;
}
}  // namespace frugal_mutants
#line 1
"""
# What the switches read, compiled once beside the mutated files.
SWITCHES = """#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cstdlib>
namespace frugal_mutants {
constexpr int kCount = %d;
extern const int active = std::getenv("FRUGAL_MUTANT") ? std::atoi(std::getenv("FRUGAL_MUTANT")) : 0;
// Shared, so that what a child process reaches counts, however it ends.
unsigned char* Record() {
  const char* const path = std::getenv("FRUGAL_MUTANTS_REACHED");
  const int file = path != nullptr ? open(path, O_RDWR | O_CREAT, 0600) : -1;
  if (file >= 0 && ftruncate(file, kCount + 1) != 0) std::abort();
  const int flags = file >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  return static_cast<unsigned char*>(mmap(nullptr, kCount + 1, PROT_READ | PROT_WRITE, flags, file, 0));
}
extern unsigned char* const reached = Record();
}  // namespace frugal_mutants
"""
FIRST_MUTANT_LINE = 1_000_000
BOUNDARIES = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
OPPOSITES = {"+": "-", "-": "+", "*": "/", "+=": "-=", "-=": "+=", "++": "--", "--": "++"}
CALLEES = {"std::max": "std::min", "std::min": "std::max", "std::any_of": "std::all_of", "std::all_of": "std::any_of"}
# How far a step of the ladder may reach.
NAMES = {
    "WaitPolicy::kPassed": "WaitPolicy::kThroughStreamWaits",
    "WaitPolicy::kThroughStreamWaits": "WaitPolicy::kPassed",
    "WaitPolicy::kWithHostWaits": "WaitPolicy::kPassed",
}
# Invariants test the code, not the other way round; attributes would only confuse the parser.
NO_FUNCTION = re.compile(r"\w*CheckInvariants\w*|CheckChange|CheckBlock")
NO_CALL = re.compile(r"(FRUGAL_CHECK|CheckChange|CheckBlock|CheckInvariants\w*|static_assert)\b")
ATTRIBUTE = re.compile(rb"\bABSL_[A-Z_]+(\(\w+\))?|\[\[\w+\]\]")
SILENT = {"template_argument_list", "case_statement", "ERROR", "preproc_if", "preproc_ifdef", "parameter_list"}


@dataclasses.dataclass
class Mutant:
    """One change. `key` names it in a list that outlives the moving of lines."""

    file: str
    line: int
    function: str
    start: int  # bytes of the source that are replaced
    end: int
    original: str
    changed: str  # "" leaves a statement out
    number: int = 0
    key: str = ""

    def describe(self) -> str:
        return f"{self.file}:{self.line}: {self.function}: {change_of(self)}"


def on_one_line(text: str) -> str:
    return " ".join(text.split())


def change_of(mutant: Mutant) -> str:
    return f"{on_one_line(mutant.original)}  ->  {on_one_line(mutant.changed) or '(left out)'}"


class Finder:
    """The mutants of one file."""

    def __init__(self, file: str, source: bytes):
        self._file = file
        self._source = source
        self._function = ""
        self.found: list[Mutant] = []

    def run(self) -> list[Mutant]:
        blanked = ATTRIBUTE.sub(lambda match: b" " * len(match[0]), self._source)
        for function in functions_of(PARSER.parse(blanked).root_node):
            name = function.child_by_field_name("declarator")
            while name is not None and name.type not in ("identifier", "field_identifier", "qualified_identifier"):
                name = name.child_by_field_name("declarator") or next(
                    (child for child in name.named_children if "declarator" in child.type), None
                )
            self._function = self._text(name) if name is not None else "?"
            if not NO_FUNCTION.fullmatch(self._function.rpartition("::")[2]):
                self._returns_status = self._text(function.child_by_field_name("type")) == "absl::Status"
                self._visit(function.child_by_field_name("body"))
        return self.found

    def _text(self, node: tree_sitter.Node | None) -> str:
        return "" if node is None else self._source[node.start_byte : node.end_byte].decode()

    def _add(self, node: tree_sitter.Node, changed: str) -> None:
        line = node.start_point[0] + 1
        found = Mutant(self._file, line, self._function, node.start_byte, node.end_byte, self._text(node), changed)
        self.found.append(found)

    def _visit(self, node: tree_sitter.Node) -> None:
        if node.type in SILENT or (node.type == "declaration" and self._text(node).startswith(("constexpr", "static"))):
            return
        if node.type == "call_expression" and NO_CALL.match(self._text(node.child_by_field_name("function"))):
            return
        rule: Callable[[tree_sitter.Node], None] | None = getattr(self, f"_at_{node.type}", None)
        if rule is not None:
            rule(node)
        for child in node.named_children:
            self._visit(child)

    def _at_condition(self, condition: tree_sitter.Node | None, outcomes: Iterable[str]) -> None:
        if condition is not None and condition.type == "condition_clause":
            condition = condition.child_by_field_name("value")
        if condition is not None and condition.type != "declaration":
            for outcome in outcomes:
                self._add(condition, outcome)

    def _at_if_statement(self, node: tree_sitter.Node) -> None:
        self._at_condition(node.child_by_field_name("condition"), ("false", "true"))

    def _at_conditional_expression(self, node: tree_sitter.Node) -> None:
        self._at_condition(node.child_by_field_name("condition"), ("false", "true"))

    def _at_while_statement(self, node: tree_sitter.Node) -> None:
        self._at_condition(node.child_by_field_name("condition"), ("false",))

    _at_for_statement = _at_while_statement

    def _at_binary_expression(self, node: tree_sitter.Node) -> None:
        left, right = (node.child_by_field_name(side) for side in ("left", "right"))
        operator = self._text(node.child_by_field_name("operator"))
        if operator in ("&&", "||"):
            self._add(node, self._text(left))
            self._add(node, self._text(right))
        elif operator in BOUNDARIES or operator in OPPOSITES:
            if operator in ("==", "!=") and node.parent is not None and node.parent.type == "condition_clause":
                return  # as a condition it is tried both ways already
            changed = BOUNDARIES.get(operator) or OPPOSITES[operator]
            self._add(node, f"{self._text(left)} {changed} {self._text(right)}")

    def _at_unary_expression(self, node: tree_sitter.Node) -> None:
        is_condition = node.parent is not None and node.parent.type == "condition_clause"
        if self._text(node).startswith("!") and not is_condition:
            self._add(node, self._text(node.child_by_field_name("argument")))

    def _at_call_expression(self, node: tree_sitter.Node) -> None:
        text = self._text(node)
        for callee, other in CALLEES.items():
            if re.match(rf"{callee}\b", text):
                self._add(node, other + text[len(callee) :])

    def _at_number_literal(self, node: tree_sitter.Node) -> None:
        if re.fullmatch(r"\d+", self._text(node)):
            self._add(node, str(int(self._text(node)) + 1))

    def _at_true(self, node: tree_sitter.Node) -> None:
        self._add(node, "false")

    def _at_false(self, node: tree_sitter.Node) -> None:
        self._add(node, "true")

    def _at_qualified_identifier(self, node: tree_sitter.Node) -> None:
        if self._text(node) in NAMES:
            self._add(node, NAMES[self._text(node)])

    def _at_expression_statement(self, node: tree_sitter.Node) -> None:
        if NO_CALL.match(self._text(node)):
            return
        self._add(node, "")
        inner = node.named_children[0] if node.named_children else None
        if inner is not None and inner.type in ("assignment_expression", "update_expression"):
            text, operator = self._text(inner), self._text(inner.child_by_field_name("operator"))
            if operator in OPPOSITES:
                self._add(inner, text.replace(operator, OPPOSITES[operator], 1))

    _at_break_statement = _at_continue_statement = lambda self, node: self._add(node, "")

    def _at_init_declarator(self, node: tree_sitter.Node) -> None:
        """A call that is not made, and says that it went well."""
        value = node.child_by_field_name("value")
        declared = self._text(node.parent.child_by_field_name("type")) if node.parent is not None else ""
        if declared == "absl::Status" and value is not None and value.type == "call_expression":
            self._add(value, "absl::OkStatus()")

    def _at_return_statement(self, node: tree_sitter.Node) -> None:
        value = node.named_children[0] if node.named_children else None
        if not self._returns_status or value is None or value.type != "call_expression" or in_lambda(node):
            return
        if self._text(value) != "absl::OkStatus()":
            self._add(value, "absl::OkStatus()")


def functions_of(node: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    if node.type == "function_definition":
        if node.child_by_field_name("body") is not None:
            yield node
        return
    for child in node.named_children:
        yield from functions_of(child)


def in_lambda(node: tree_sitter.Node | None) -> bool:
    while node is not None and node.type != "function_definition":
        if node.type == "lambda_expression":
            return True
        node = node.parent
    return False


def find(file: str, source: bytes) -> list[Mutant]:
    """The mutants of a file in the order of their places, with keys but without numbers."""
    mutants = sorted(Finder(file, source).run(), key=lambda mutant: (mutant.start, -mutant.end))
    seen: collections.Counter[str] = collections.Counter()
    for mutant in mutants:
        key = f"{mutant.file} | {mutant.function} | {change_of(mutant)}"
        seen[key] += 1
        mutant.key = key if seen[key] == 1 else f"{key} | {seen[key]}"
    return mutants


def switched(mutants: list[Mutant], inner: str) -> str:
    """The text of one place: what was there, or what the active mutant says instead.

    Each mutant's own text is given a line number of its own, by which the compiler names it if it does not compile.
    """
    back = f"\n#line {mutants[0].line}\n"
    if mutants[0].original.endswith(";"):
        return f"{{ if (!frugal_mutants::Is({mutants[0].number})) {{ {inner} }} }}"
    is_condition = mutants[0].changed in ("false", "true") and mutants[0].original not in ("false", "true")
    text = f"static_cast<bool>({inner})" if is_condition else f"({inner})"
    for mutant in reversed(mutants):
        line = FIRST_MUTANT_LINE + mutant.number
        changed = on_one_line(mutant.changed)
        text = f"frugal_mutants::Is({mutant.number})\n#line {line}\n? ({changed}) :{back}{text}"
    return f"({text})"


def render(source: bytes, mutants: list[Mutant]) -> str:
    """The source with all its mutants behind switches."""
    places: dict[tuple[int, int], list[Mutant]] = collections.defaultdict(list)
    for mutant in mutants:
        places[mutant.start, mutant.end].append(mutant)

    def text_between(start: int, end: int, inside: list[tuple[int, int]]) -> str:
        parts, at = [], start
        while inside:
            place = inside[0]
            nested = [other for other in inside[1:] if other[1] <= place[1]]
            inside = inside[1 + len(nested) :]
            parts.append(source[at : place[0]].decode())
            parts.append(switched(places[place], text_between(*place, nested)))
            at = place[1]
        return "".join(parts) + source[at:end].decode()

    return PROLOGUE + text_between(0, len(source), sorted(places, key=lambda place: (place[0], -place[1])))


def refused(complaints: str) -> set[int]:
    """The numbers of the mutants that the compiler complains of."""
    lines = (int(line) for line in re.findall(r"^allocator/[\w/]+\.cc:(\d+):", complaints, re.MULTILINE))
    return {line - FIRST_MUTANT_LINE for line in lines if line > FIRST_MUTANT_LINE}
