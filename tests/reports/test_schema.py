"""What is not a report is refused in one line; what is, is brought into the form that its readers rely on.

Damaged reports are shown or refused: tests/bad_input.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
import report_samples as samples
from frugal_alloc._report.schema import BadDocument, conform


@pytest.mark.parametrize("make", [samples.healthy, samples.leaking, samples.out_of_memory, samples.huge])
def test_a_document_of_ours_is_as_it_was(make: Any) -> None:
    document = make()
    formed = conform(document)
    assert {key: formed[key] for key in ("frames", "timeline", "notes", "run", "epochs", "gpus", "sites")} == {
        key: document[key] for key in ("frames", "timeline", "notes", "run", "epochs", "gpus", "sites")
    }
    assert formed["ranks"] == []


def test_keys_that_are_not_known_are_kept_and_do_no_harm() -> None:
    document = samples.leaking() | {"later": {"a": [1]}}
    document["verdicts"][0]["later"] = 1
    formed = conform(document)
    assert formed["later"] == {"a": [1]}
    assert formed["verdicts"][0]["later"] == 1


def test_conforming_changes_nothing_of_what_was_given_and_once_is_enough() -> None:
    document = samples.hostile()
    before = json.dumps(document)
    formed = conform(document)
    assert json.dumps(document) == before
    assert conform(formed) == formed


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"schema": "another"}, "it is not a report of frugal_alloc"),
        ({"version": 2}, "it is of version 2, and this frugal_alloc knows 1; install a newer one"),
        ({"version": "1"}, "which version"),
        ({"version": True}, "which version"),
        ({"verdicts": {}}, "verdicts: a list is wanted, not an object"),
        ({"verdicts": [{"kind": "theft"}]}, "verdicts[0].kind: one of leak, suspect"),
        ({"verdicts": [{"kind": "leak", "bytes": -1}]}, "verdicts[0].bytes: a number from 0 on is wanted, not -1"),
        (
            {"verdicts": [{"kind": "leak", "bytes_per_epoch": float("nan")}]},
            "bytes_per_epoch: a number below 2**63 is wanted, not NaN",
        ),
        ({"verdicts": [{"kind": "leak", "stack": [99]}]}, "a stack names a frame, but there are only 11"),
        ({"gpus": [{"gpu": 1 << 17}]}, "gpus[0].gpu: a number from 0 to 65536 is wanted"),
        (
            {"segments": [{"gpu": 0, "address": 0, "bytes": 1, "blocks": [[0, 1, "lost", None]]}]},
            'segments[0].blocks[0][2]: one of allocated, awaiting, free is wanted, not "lost"',
        ),
        ({"segments": [{"gpu": 0, "address": 0, "bytes": 1, "blocks": [[0, 1, "free", 9]]}]}, "a block names a site"),
        ({"timeline": {"phases": [], "points": [[0, 0, 0, 0, 1, 1, 1]]}}, "names a phase, but there are only 0"),
        ({"oom": {}}, "oom: verdict is missing"),
        ({"oom": {"verdict": "leak", "stack": [11]}}, "a stack names a frame"),
        ({"ranks": [{"verdicts": [{"kind": "leak", "stack": [0]}]}]}, "a stack names a frame, but there are only 0"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(change: dict[str, Any], expected: str) -> None:
    with pytest.raises(BadDocument) as refused:
        conform(samples.healthy() | change)
    assert expected in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("value", [None, [], "report", 7, {"schema": ["frugal_alloc.report"]}])
def test_other_values_are_no_report(value: Any) -> None:
    with pytest.raises(BadDocument, match="it is not a report"):
        conform(value)
