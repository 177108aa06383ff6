"""Writes the pictures of the documents; see --help."""

import argparse
import importlib.util
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
if importlib.util.find_spec("matplotlib") is None:
    print("python tools/pictures: matplotlib is not installed; run tools/setup, then .venv/bin/python", file=sys.stderr)
    sys.exit(2)

from pictures import cases, pages, runs


def main() -> int:
    parser = argparse.ArgumentParser(
        prog=pages.COMMAND, description="Writes the pictures of the documents, their figures and what they quote."
    )
    parser.add_argument(
        "--record", action="store_true", help="record what they show anew first, on the simulated GPU; three minutes"
    )
    if parser.parse_args().record:
        try:
            found = {name: one.record() for name, one in cases.SHOWN.items() if one.record}
            for name, data in found.items():
                runs.write(name, data)
        except Exception as error:
            # Whatever a run fails with; the pictures are as they were.
            print(f"nothing was recorded: {type(error).__name__}: {error}", file=sys.stderr)
            return 2
    for picture in cases.PICTURES:
        cases.file_of(picture).write_text(cases.drawn(picture), encoding="utf-8")
    figures = cases.told()
    for document in pages.DOCUMENTS:
        document.write_text(pages.filled(document, figures), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
