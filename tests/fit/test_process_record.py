"""What the agent has said of a process is read as it was sent, and refused in one line where it is damaged."""

from __future__ import annotations

from typing import Any

import pytest
from frugal_alloc._planning import followed
from frugal_alloc._planning.fit import fitting, process_record
from frugal_alloc._planning.fit.process_record import Place
from frugal_alloc._planning.followed import Mailbox, Sender
from frugal_alloc._planning.following import Ended

RECORD: dict[str, Any] = {
    "process": 7,
    "rank": -1,
    "steps": 3,
    "trains": True,
    "is_half": False,
    "can_fuse": True,
    "allocator": "native",
    "settings": "max_split_size_mb:64",
    "reordered": 0,
    "ended": "steps",
    "error": "",
    "advice": [["a smaller batch", 1 << 20, True]],
    "texts": ["forward"],
    "places": {
        "1": {"where": ["train.py", 7, "step"], "traits": ["loss"], "node": "", "forward": 0},
        "2": {"where": None, "traits": [], "node": "MulBackward0", "forward": 1},
    },
    "counted": {"0": [5, 9]},
    "managed": {"0": 64},
    "guesses": [],
    "not_simulated": ["cuStreamWaitValue32"],
    "journal": "7.journal",
}


def messages(*changes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{process_record.STEPS_ENDED: 1}, *({process_record.RECORD: RECORD | changed} for changed in changes)]


def test_what_was_written_is_read(tmp_path: Any) -> None:
    sender, mailbox = Sender(str(tmp_path)), Mailbox(str(tmp_path))
    for message in messages({}):
        sender.send(message)
    (record,) = process_record.read_all(mailbox.new())
    assert record.places == {1: Place(("train.py", 7, "step"), ("loss",), "", 0), 2: Place(None, (), "MulBackward0", 1)}
    assert (record.counted, record.advice) == ({0: (5, 9)}, (("a smaller batch", 1 << 20, True),))
    assert mailbox.new() == []


def test_half_a_message_is_none_until_the_rest_is_there(tmp_path: Any) -> None:
    mailbox = Mailbox(str(tmp_path))
    file = tmp_path / "7.messages"
    file.write_bytes(b'{"steps_ended": 1}\n{"steps_e')
    assert mailbox.new() == [{"steps_ended": 1}]
    file.write_bytes(b'{"steps_ended": 1}\n{"steps_ended": 2}\n')
    assert mailbox.new() == [{"steps_ended": 2}]


def test_a_command_that_is_started_by_a_followed_program_follows_its_own_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    outer = followed.put({"PYTHONPATH": "/mine"}, "_planning.check.recorder", "/outer", "native", root="/")
    inner = followed.put(outer, "_planning.fit.agent", "/inner", "expandable", steps=3)
    assert inner["PYTHONPATH"] == outer["PYTHONPATH"] and inner["PYTHONPATH"].endswith(":/mine")
    monkeypatch.setenv(followed.ORDER, inner[followed.ORDER])
    assert (followed.order()["folder"], followed.order()["steps"]) == ("/inner", 3)
    assert inner["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"


def test_processes_come_in_the_order_of_their_ranks() -> None:
    records = process_record.read_all(messages({"process": 8, "rank": 1}, {"process": 9, "rank": 0}))
    assert [record.process for record in records] == [9, 8]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"steps": "3"}, r'steps: a whole number is wanted, not "3"'),
        ({"places": {"x": RECORD["places"]["1"]}}, r'places: a whole number for a key is wanted, not "x"'),
        ({"places": {"1": {}}}, r'places\["1"\]: where is missing'),
        ({"counted": {"0": [5]}}, r'counted\["0"\]: a list of 2 values is wanted'),
    ],
)
def test_a_damaged_record_is_refused_in_one_line(
    changes: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = Ended(0, None, messages(changes))
    monkeypatch.setattr(fitting, "_environment", lambda *_: {})
    monkeypatch.setattr(fitting.following, "run", lambda *_: ended)
    with pytest.raises(fitting.NotFollowed, match=said) as refused:
        fitting.run([], None)
    assert "\n" not in str(refused.value)
