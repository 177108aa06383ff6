"""Command lines: what is wrong with one, or with a file that it names, is told in one line, and the status is 2."""

from __future__ import annotations

import argparse
import difflib
import math
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NoReturn

from .messages import on_one_line

BAD_INPUT = 2
INTERRUPTED = 130


class Interrupted(Exception):
    """Whoever started a command has ended it; the message says what is undone, `status` is the one to end with."""

    def __init__(self, message: str, status: int = INTERRUPTED) -> None:
        super().__init__(message)
        self.status = status


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong with the arguments; they have ``error`` to say so of what is found out later."""

    #: Options whose value may begin with dashes, as argparse takes only the options' own names to.
    takes_dashes: Collection[str] = ()
    _missing_command: str | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.set_defaults(error=self.error)

    def add_command(self, missing: str = "name the command to run, after --") -> None:
        """What follows ``--``, or begins with the first word that is no option, becomes ``command``, a list of words.

        Args:
            missing: What is said where there is none; "" if there may be none.
        """
        self.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
        self._missing_command = missing

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"{self.prog}: {on_one_line(message)} (see {self.prog} --help)\n")

    def _refuse_option(self, option: str, known: Collection[str]) -> NoReturn:
        """Ends with a line that names the option, and the known one that is most like it, if one is."""
        # Without the dashes, in which all are alike.
        names = [name[2:] for name in known if name.startswith("--")]
        near = nearest(option.lstrip("-"), names)
        self.error(f"unknown option {option}" + (f"; did you mean --{near}?" if near else ""))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """As argparse would, but for the words."""
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(action, f"there is no {value!r:.60}{did_you_mean(value, action.choices)}")

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:
        words, command = self._split(sys.argv[1:] if args is None else list(args))
        # Before argparse looks: it would rather complain of what is missing, which may well be what was mistyped.
        unknown = self._unknown_option(words)
        if unknown is not None:
            self._refuse_option(unknown, self._option_string_actions)
        options, unknown_words = super().parse_known_args(words, namespace)
        if self._missing_command is not None:
            options.command += command if options.command else command[1:]
            if not options.command and self._missing_command:
                self.error(self._missing_command)
        return options, unknown_words

    def _split(self, words: list[str]) -> tuple[list[str], list[str]]:
        """Our words, and those from ``--`` on if a command may follow."""
        end = words.index("--") if self._missing_command is not None and "--" in words else len(words)
        ours: list[str] = []
        for word in words[:end]:
            if ours and ours[-1] in self.takes_dashes:
                ours[-1] += f"={word}"
            else:
                ours.append(word)
        return ours, words[end:]

    def _unknown_option(self, words: Sequence[str]) -> str | None:
        """The first that is none of ours; the options of a command that is started, or of ours, are its own."""
        ends = any(action.nargs in (argparse.PARSER, argparse.REMAINDER) for action in self._actions)
        values = 0.0  # the most that the option before may still take
        for word in words:
            if word == "--":
                break
            if not _is_option(word):
                if ends and values < 1:
                    break
                values -= 1
                continue
            name, _, value = word.partition("=")
            action = self._known(name)
            if action is None:
                return name
            values = 0.0 if value else _most_values(action)
        return None

    def _known(self, name: str) -> argparse.Action | None:
        """The option, which may be cut short, or be one letter with its value."""
        options = self._option_string_actions
        found = options.get(name) or (None if name.startswith("--") else options.get(name[:2]))
        return found or next((action for option, action in options.items() if option.startswith(name)), None)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The one of those known that was perhaps meant: it begins so, or is like it."""
    known = list(known)
    begun = [name for name in known if word and name.startswith(word)]
    return next(iter(begun or difflib.get_close_matches(word, known, n=1)), None)


def did_you_mean(word: str, known: Collection[str]) -> str:
    """What is added to the sentence that there is no such word."""
    near = nearest(word, known)
    return f"; did you mean {near}?" if near else f"; choose from {', '.join(known)}"


def _is_option(word: str) -> bool:
    """As argparse sees it: neither a negative number nor a sentence."""
    return word.startswith("-") and not word[1:2].isdigit() and word[1:2] not in ("", ".") and " " not in word


def _most_values(action: argparse.Action) -> float:
    if isinstance(action.nargs, int):
        return action.nargs
    return 1 if action.nargs in (None, argparse.OPTIONAL) else math.inf


def refuse(program: str, error: object) -> int:
    """Says in one line what is wrong; returns the status to end with."""
    print(f"{program}: {on_one_line(str(error))}", file=sys.stderr)
    return BAD_INPUT
