"""A header that is not so is told, and so is one that cannot be read."""

from __future__ import annotations

from pathlib import Path

import error_claims
import pytest

SOURCE = """\
# ERROR: a batch that is too large
# ROOM: 200, 300
# VERDICT: too_big
# SAYS: at train\\.py:{request}
# UNSAID: Leak
# FIRST: a batch of (\\d+) fits
# FITS-AFTER: batch=9 -> batch=\\1
# THEN: del .* before
# FITS-AFTER: as told
make(batch=9)  # request
"""
TEXT = "CUDA out of memory. Tried to allocate 2 MiB. GPU 0 has a total capacity of 1 GiB\nToo big: 1\nat train.py:10"
ADVICE = [{"text": "a batch of 4 fits"}, {"text": "del x before line 10 of train.py frees 2 MiB"}]
ERROR = {"verdict": "too_big", "line": 10, "message": TEXT, "advice": ADVICE}


def read(folder: Path, source: str = SOURCE) -> error_claims.Claim:
    file = folder / "train.py"
    file.write_text(source)
    return error_claims.read(file)


def test_edits_are_those_that_the_error_tells(tmp_path: Path) -> None:
    claim = read(tmp_path)
    assert (claim.rooms, error_claims.shortcomings(claim, ERROR)) == ((200, 300), [])
    (first, batch), (then, deletion) = error_claims.told(claim, ERROR)
    assert error_claims.edited(SOURCE, first.fits_after, batch) == SOURCE.replace("(batch=9)", "(batch=4)")
    assert error_claims.edited(SOURCE, then.fits_after, deletion) == SOURCE.replace("make(", "del x\nmake(")
    with pytest.raises(error_claims.BadHeader):
        error_claims.edited(SOURCE, ("size=9 -> size=8",), batch)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"verdict": "leak"}, "its verdict is leak"),
        ({"line": 9}, "line 9 is said to ask"),
        ({"message": f"{TEXT} Leak"}, "says Leak"),
        ({"message": TEXT.replace("10", "11")}, "does not say at train\\.py:10"),
        ({"message": TEXT.replace("Too big: ", "")}, "the verdict does not follow at once"),
        ({"message": TEXT.replace("GPU 0", "GPU")}, "does not begin with PyTorch's sentence"),
        ({"message": f"{TEXT}{100 * ' '}"}, "is too long or too wide"),
        ({"advice": ADVICE[::-1]}, "its first advice is another one"),
    ],
)
def test_what_is_not_so_is_told(tmp_path: Path, changed: dict, told: str) -> None:
    assert error_claims.shortcomings(read(tmp_path), ERROR | changed) == [told]


@pytest.mark.parametrize("wrong", ["ROOM: 400", "HOLDER: x", "SAYS: {nowhere}", "VERDICT: leak", "ERROR: another"])
def test_header_that_cannot_be_read_is_refused(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(error_claims.BadHeader, match=r"train\.py"):
        read(tmp_path, SOURCE.replace("make", f"# {wrong}\nmake"))
