"""Writes the pictures of the documents; see --help."""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from pictures import fragmentation

ALL = (fragmentation,)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tools/pictures", description="Writes the pictures of the documents.")
    parser.parse_args()
    for one in ALL:
        one.FILE.parent.mkdir(parents=True, exist_ok=True)
        one.FILE.write_text(one.picture(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
