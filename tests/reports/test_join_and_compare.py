"""Several ranks become one document; two runs are compared line by line, also where lines have moved."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import report_samples as samples
from frugal_alloc._common.messages import Refused
from frugal_alloc._report.compare import compare, to_text
from frugal_alloc._report.join import join
from frugal_alloc._report.schema import conform

MIB, GIB = 1 << 20, 1 << 30


def ranks(count: int) -> list[dict]:
    return [samples.rank(number, count, samples.leaking()) for number in range(count)]


def test_a_leak_that_ranks_share_is_one_verdict_with_the_worst_figures() -> None:
    documents = ranks(3)
    documents[2]["verdicts"][0]["bytes_per_epoch"] = 900.0 * MIB
    joined = conform(join(documents[::-1]))
    assert [(one["kind"], one["ranks"]) for one in joined["verdicts"]] == [("leak", [0, 1, 2]), ("cycle", [0, 1, 2])]
    assert joined["verdicts"][0]["bytes_per_epoch"] == 900 * MIB
    assert [gpu["rank"] for gpu in joined["gpus"]] == [0, 1, 2]
    assert [document["run"]["rank"] for document in joined["ranks"]] == [0, 1, 2]


def test_stacks_of_all_ranks_lead_to_their_frames() -> None:
    documents = ranks(2)
    other = {"file": "/home/ada/loader.py", "line": 5, "function": "load", "code": "x.cuda()"}
    documents[1]["frames"] = [other, *documents[1]["frames"]]
    documents[1]["sites"], documents[1]["segments"] = [], []
    documents[1]["verdicts"] = [copy.deepcopy(samples.LEAK) | {"file": other["file"], "line": 5, "stack": [0, 1]}]
    joined = join(documents)
    verdict = next(one for one in joined["verdicts"] if one["line"] == 5)
    assert [joined["frames"][number]["line"] for number in verdict["stack"]] == [5, 88]


def test_the_rank_that_ran_out_of_memory_is_the_one_that_is_shown() -> None:
    documents = ranks(2)
    documents[1]["oom"] = samples.out_of_memory()["oom"]
    joined = join(documents)
    assert joined["oom"]["verdict"] == "too_big"
    assert "rank 1, which is worst off" in joined["notes"][0]


def test_missing_ranks_are_named() -> None:
    joined = join([document for document in ranks(4) if document["run"]["rank"] != 2])
    assert "Of 4 ranks, these are missing: 2." in joined["notes"]


@pytest.mark.parametrize("spoil", ["twice", "sizes", "joined"])
def test_documents_that_are_not_of_one_run_are_refused(spoil: str) -> None:
    documents = ranks(2)
    if spoil == "twice":
        documents[1]["run"]["rank"] = 0
    elif spoil == "sizes":
        documents[1]["run"]["world_size"] = 4
    else:
        documents = [join(documents), samples.rank(2, 2, samples.leaking())]
    with pytest.raises(Refused) as refused:
        join(documents)
    assert "\n" not in str(refused.value)


RANK = """
import json, sys
import torch.distributed as distributed
import report_samples
from frugal_alloc._report.join import gather
rank = int(sys.argv[1])
distributed.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=3)
said = []
def hand_over(seconds):
    joined = gather(report_samples.rank(rank, 3, report_samples.leaking()), timeout_seconds=seconds)
    said.append(joined and [len(joined["ranks"]), joined["notes"]])
if rank == 1:
    hand_over(600.0)
distributed.barrier()
# However slow rank 1 was: what rank 0 waits for in vain is rank 2.
if rank == 0:
    hand_over(1.0)
distributed.barrier()
hand_over(600.0)
print(json.dumps(said))
"""


def test_rank_0_gets_the_documents_of_all_that_are_there(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": ":".join(sys.path)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(rank), tmp_path / "store"],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for rank in range(3)
    ]
    at_0, at_1, at_2 = (json.loads(process.communicate(timeout=600)[0]) for process in processes)
    assert [count for count, _ in at_0] == [2, 3]
    assert "Of 3 ranks, these are missing: 2." in at_0[0][1]
    assert (at_1, at_2) == ([None, None], [None])


def test_gathering_without_a_process_group_does_nothing() -> None:
    from frugal_alloc._report.join import gather

    assert gather(samples.leaking()) is None


def test_what_is_mended_is_gone_and_what_is_new_is_new() -> None:
    before, after = conform(samples.leaking()), conform(samples.leaking())
    after["verdicts"][0] |= {"code": "cache[step] = output", "line": 50}
    comparison = compare(before, after)
    assert [one["line"] for one in comparison["verdicts"]["gone"]] == [42]
    assert [one["line"] for one in comparison["verdicts"]["new"]] == [50]
    assert [one["after"]["kind"] for one in comparison["verdicts"]["still"]] == ["cycle"]


def test_a_line_that_moved_is_the_same_line() -> None:
    before, after = conform(samples.leaking()), conform(samples.leaking())
    for row in (*after["frames"], *after["sites"], *after["verdicts"]):
        row["line"] += 7
    comparison = compare(before, after)
    assert comparison["lines"] == []
    assert comparison["verdicts"]["gone"] == comparison["verdicts"]["new"] == []


def test_lines_that_grew_and_shrank_are_told_with_their_bytes() -> None:
    before, after = conform(samples.healthy()), conform(samples.healthy())
    after["sites"][0]["peak_bytes"] -= 2 * GIB
    after["sites"][3]["bytes"] += GIB
    after["gpus"][0]["peak_allocated_bytes"] -= 2 * GIB
    comparison = compare(before, after)
    assert [(one["line"], one["change_bytes"]) for one in comparison["lines"]] == [(57, -2 * GIB), (20, GIB)]
    text = to_text(comparison)
    assert "9.00 GiB → 7.00 GiB (-22.2%)" in text
    (head,) = [line for line in text.splitlines() if line.endswith(" line")]
    (row,) = [line for line in text.splitlines() if "models/unet.py:57" in line]
    assert re.split("  +", head) == ["", "before to after", "at the peak", "now", "line"]
    assert row.startswith("  -2.00 GiB ") and head.index("line") == row.index("models/unet.py")


def test_a_run_with_itself_has_no_change() -> None:
    text = to_text(compare(conform(samples.leaking()), conform(samples.leaking())))
    assert "no line holds noticeably more or less than before" in text
    assert "still: ada/train.py:42 leaks 768.00 MiB with each epoch" in text
