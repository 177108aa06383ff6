"""Runs the programs of programs/, all or those named, and prints for each how right its report is.

    python tests/leaks/run_programs.py [--expectations] [--told] [NAME ...]

--expectations prints those that fall short as test_corpus.py lists them; --told, what was reported of each.
"""

from __future__ import annotations

import argparse

import claims
import program_runs
from claims import Claim, Judgement


def judgements(names: list[str]) -> dict[str, tuple[Claim, Judgement | str]]:
    """Of each program; a text where it failed."""
    found: dict[str, tuple[Claim, Judgement | str]] = {}
    for name in names:
        claim = claims.read(name)
        try:
            found[name] = claim, claims.judge(claim, program_runs.run(name, claim.values))
        except RuntimeError as error:
            found[name] = claim, str(error)
    return found


def shortcoming(judgement: Judgement) -> str:
    """What is not right, in a line; "" where all is."""
    values = {matter: getattr(judgement, matter) for matter in ("line", "holder", "remedy", "verdict", "epochs")}
    texts = [f"{matter} {value}" for matter, value in values.items() if value not in ("right", "-")]
    if judgement.accused:
        texts.append(f"accuses {' and '.join(judgement.accused)}")
    return ", ".join(texts)


def _table(found: dict[str, tuple[Claim, Judgement | str]], tells: bool) -> None:
    for name, (claim, judgement) in found.items():
        if isinstance(judgement, str):
            print(f"{name:34} {claim.kind:8} FAILED {judgement}")
            continue
        print(f"{name:34} {claim.kind:8} {shortcoming(judgement) or 'right'}")
        if tells:
            print(f"    {judgement.told}")


def _sums(found: dict[str, tuple[Claim, Judgement | str]]) -> None:
    judged = [(claim, judgement) for claim, judgement in found.values() if isinstance(judgement, Judgement)]
    leaks = [judgement for claim, judgement in judged if claim.kind == "LEAK"]
    for matter in ("line", "holder", "remedy"):
        values = [getattr(judgement, matter) for judgement in leaks]
        told = [value for value in values if value in ("right", "wrong")]
        print(f"{matter}s: {values.count('right')} right of {len(told)} told, {len(leaks)} leaks")
    for kind in claims.KINDS:
        ones = [judgement for claim, judgement in judged if claim.kind == kind]
        print(f"{kind}: {len(ones)} programs, {sum(bool(one.accused) for one in ones)} accuse an innocent line")
    print(f"failed: {len(found) - len(judged)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--expectations", action="store_true")
    parser.add_argument("--told", action="store_true")
    options = parser.parse_args()
    found = judgements(options.names or claims.all_names())
    if options.expectations:
        for name, (_, judgement) in found.items():
            if reason := judgement if isinstance(judgement, str) else shortcoming(judgement):
                print(f'    "{name}": "{reason}",')
        return
    _table(found, options.told)
    _sums(found)


if __name__ == "__main__":
    main()
