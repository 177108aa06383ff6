"""Arguments of the programs in bench/."""

from __future__ import annotations

import argparse
from typing import NoReturn

BAD_INPUT = 2


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong with the arguments."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"{self.prog}: {message} (see {self.prog} --help)\n")
