"""Writes the pictures of the documents; see --help."""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from pictures import recorded
from pictures.all_pictures import ALL, RECORDED


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tools/pictures", description="Writes the pictures of the documents.")
    parser.add_argument(
        "--record", action="store_true", help="record what they show anew first, on the simulated GPU; half a minute"
    )
    if parser.parse_args().record:
        for one in RECORDED:
            recorded.write(one.record(), one.DATA)
    for one in ALL:
        one.FILE.write_text(one.picture(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
