"""The reference of the settings: keys and values as the parser has them, meanings from enable()'s docstring."""

from __future__ import annotations

import ast
import re
import textwrap

from . import PACKAGE, ROOT

_KEY = re.compile(r'\{"(\w+)",\s*"([^"]+)"')
_ARGUMENT = re.compile(r"^    (\w+): (.+(?:\n     +.+)*)", re.MULTILINE)
_FIELD = re.compile(r"std::string (\w+) = \{\};")


def keys() -> dict[str, str]:
    """By key, which values it takes."""
    source = (ROOT / "bindings" / "settings" / "settings.cc").read_text(encoding="utf-8")
    return dict(_KEY.findall(source.split(" kKeys = ", 1)[1].split("}};", 1)[0]))


def meanings() -> dict[str, str]:
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    enable = next(node for node in tree.body if getattr(node, "name", "") == "enable")
    arguments = ast.get_docstring(enable).split("Args:\n", 1)[1].split("\n\n", 1)[0]
    return {name: " ".join(textwrap.dedent(text).split()) for name, text in _ARGUMENT.findall(arguments)}


def page() -> str:
    told = meanings()
    header = (ROOT / "bindings" / "include" / "frugal_alloc" / "torch.h").read_text(encoding="utf-8")
    in_cpp = set(_FIELD.findall(header.split("struct Options", 1)[1].split("\n};", 1)[0]))
    rows = "\n".join(
        f"| `{key}` | {values} | {told[key].replace('``', '`')} | {'yes' if key in in_cpp else 'no'} |"
        for key, values in keys().items()
    )
    return f"""# Settings, key by key

In the environment, `FRUGAL_ALLOC_CONF=key:value,key:value`; in Python, arguments of
[`enable()`](python.md#frugal_alloc.enable); in C++, fields of [`Options`](cpp.md#Options). Hardly any program needs
one. [When to use which](../tuning.md) says more of each.

| key | values | meaning | in `Options` |
| --- | --- | --- | --- |
{rows}

`FRUGAL_ALLOC=0` turns frugal_alloc off, whatever a program asks for. `FRUGAL_ALLOC=1` turns it on in every program of
this Python, once [`frugal-alloc install-hook`](command_line.md#install-hook) has been run.
"""
