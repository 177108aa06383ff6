"""A report is brought into the form that its readers rely on; what is none, tests/bad_input has."""

from __future__ import annotations

import json
from typing import Any

import pytest
import report_samples as samples
from frugal_alloc._report.schema import conform


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
