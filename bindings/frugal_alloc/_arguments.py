"""Command lines: what is wrong with one, or with a file that it names, is told in one line, and the status is 2."""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn

from ._messages import on_one_line

BAD_INPUT = 2


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong with the arguments."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"{self.prog}: {on_one_line(message)} (see {self.prog} --help)\n")


def refuse(program: str, error: object) -> int:
    """Says in one line what is wrong; returns the status to end with."""
    print(f"{program}: {on_one_line(str(error))}", file=sys.stderr)
    return BAD_INPUT
