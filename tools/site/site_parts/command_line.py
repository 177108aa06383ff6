"""The reference of the command line, from the parsers that carry it out."""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import sys
from unittest import mock

from . import PACKAGE

sys.path.append(str(PACKAGE.parent))
from frugal_alloc._command import cli


def parsers() -> dict[str, argparse.ArgumentParser]:
    """By subcommand; that of the command itself is ""."""
    whole = _parser_of([])
    commands = next(one for one in whole._actions if isinstance(one, argparse._SubParsersAction))
    return {"": whole} | {name: _parser_of([name]) for name in commands.choices}


def page() -> str:
    found = parsers()
    whole = found.pop("")
    commands = next(one for one in whole._actions if isinstance(one, argparse._SubParsersAction))
    rows = "\n".join(f"| [`{one.dest}`](#{one.dest}) | {one.help} |" for one in commands._choices_actions)
    first = re.sub(r"^first steps:\n", "", whole.epilog or "")
    parts = [_section(name, parser) for name, parser in found.items()]
    return f"""# The command line

`frugal-alloc` {_sentence(whole.description)} Bad input gets one line and exit status 2.

| command | what it does |
| --- | --- |
{rows}

First steps:

```sh
{_dedented(first)}
```

{"".join(parts)}"""


def _parser_of(command: list[str]) -> argparse.ArgumentParser:
    """The parser that would have printed the help."""
    asked: list[argparse.ArgumentParser] = []
    with (
        mock.patch.object(argparse.ArgumentParser, "print_help", lambda self, file=None: asked.append(self)),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.suppress(SystemExit),
    ):
        cli.main([*command, "--help"])
    return asked[0]


def _section(name: str, parser: argparse.ArgumentParser) -> str:
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    usage = re.sub(r" (?=frugal-alloc )", "\n", usage)
    usage = "\n".join(_wrapped(line) for line in usage.splitlines())
    options = [one for one in parser._actions if one.help != argparse.SUPPRESS and "--help" not in one.option_strings]
    rows = "\n".join(f"| {_invocation(one)} | {_help(parser, one)} |" for one in options)
    table = f"| argument | meaning |\n| --- | --- |\n{rows}\n\n" if options else ""
    return f"## {name}\n\n{_escaped(parser.description or '')}\n\n```text\n{usage}\n```\n\n{table}"


def _invocation(action: argparse.Action) -> str:
    if not action.option_strings:
        return f"`{action.metavar or action.dest}`"
    value = "" if action.nargs == 0 else f" {action.metavar or _choices(action)}"
    return ", ".join(f"`{option}{value}`" for option in action.option_strings).replace("|", "\\|")


def _choices(action: argparse.Action) -> str:
    return "|".join(map(str, action.choices)) if action.choices else action.dest.upper()


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    text = (action.help or "") % {**vars(action), "prog": parser.prog}
    return _escaped(text).replace("|", "\\|")


def _escaped(text: str) -> str:
    """What looks like an option or a variable is code; all else means itself."""
    text = re.sub(r"([<>*\[\]])", r"\\\1", text).replace("_", "\\_")
    code = re.compile(r"(?<![\w`])(--[a-z][a-z-]*|[A-Z]+(?:\\_[A-Z]+)+(?:=\S+?(?=[\s:;,]))?|FRUGAL\\_ALLOC\S*)")
    return code.sub(lambda found: "`" + found[1].replace("\\", "") + "`", text)


def _sentence(text: str | None) -> str:
    text = (text or "").strip()
    return text[:1].lower() + text[1:]


def _dedented(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip().splitlines())


def _wrapped(usage: str, width: int = 88) -> str:
    """Broken between arguments, where a line would be longer than a page shows."""
    lines = [""]
    for part in re.findall(r"\[(?:[^\[\]]|\[[^\[\]]*\])*\]|\S+", usage):
        if lines[-1] and len(lines[-1]) + 1 + len(part) > width:
            lines.append("   ")
        lines[-1] += f" {part}" if lines[-1] else part
    return "\n".join(lines)
