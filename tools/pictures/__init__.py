"""The pictures of the documents, as SVG: `python tools/pictures` writes them all."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The packages as they are in this checkout, for whichever Python draws, and what runs its programs.
sys.path[:0] = [str(ROOT / folder) for folder in ("bindings", "simulated_gpu/python", "tests")]
