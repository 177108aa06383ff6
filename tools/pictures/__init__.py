"""The pictures of the documents, as SVG: `python tools/pictures` writes them all.

Other tools draw with it, too: with tools/ on `sys.path`, `from pictures.line_chart import LineChart, line_chart`.
Drawing imports only ``frugal_alloc._pages`` of the package, which needs no torch.
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The package as it is in this checkout, for whichever Python draws.
sys.path.insert(0, str(ROOT / "bindings"))
