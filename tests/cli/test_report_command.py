"""frugal-alloc report: prints, joins and compares what runs have reported; bad files are tests/bad_input's."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "reports"))
import report_samples as samples
from frugal_alloc._common.messages import format_bytes

RECORDED = Path(__file__).resolve().parents[1] / "reports" / "tensorflow"


def written(folder: Path, document: Any, name: str = "report.json") -> Path:
    path = folder / name
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def ranks(folder: Path, document: Any, name: str = "") -> list[Path]:
    return [written(folder, samples.rank(n, 2, document), f"{name}{n}.json") for n in (1, 0)]


def test_a_report_is_printed_with_its_line_and_remedy(command: Any, tmp_path: Path) -> None:
    outcome = command("report", written(tmp_path, samples.leaking()))
    assert (outcome.status, outcome.err) == (0, "")
    for part in ("train.py:42", "losses.append(loss)", "append loss.item()", "768.00 MiB per epoch"):
        assert part in outcome.out, part
    assert "\x1b" not in outcome.out


def test_nothing_in_a_file_steers_the_terminal(command: Any, tmp_path: Path) -> None:
    outcome = command("report", written(tmp_path, samples.hostile()))
    assert outcome.status == 0
    assert all(character.isprintable() or character == "\n" for character in outcome.out)


def test_the_page_is_written_whole_and_says_where(command: Any, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    outcome = command("report", written(tmp_path, samples.leaking()), "--html", page)
    assert (outcome.status, outcome.out, outcome.err) == (0, "", f"wrote {page}\n")
    assert page.read_text().endswith("</html>\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "report.json"]


def test_pytorchs_own_viewer_reads_the_pickle(command: Any, tmp_path: Path) -> None:
    from frugal_alloc._common.recorded_files import parse_values, read_bytes
    from torch.cuda import _memory_viz

    pickle = tmp_path / "memory.pickle"
    outcome = command("report", written(tmp_path, samples.healthy()), "--memory-viz", pickle)
    assert (outcome.status, outcome.out, outcome.err) == (0, "", f"wrote {pickle}\n")
    snapshot = parse_values(read_bytes(pickle), pickle)
    (segment,) = snapshot["segments"]
    assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]
    assert segment["allocated_size"] == 200 * 14 * samples.MIB
    assert segment["blocks"][0]["frames"][0]["name"] == "_init_group"
    assert _memory_viz.segsum(snapshot).startswith("Summary of segments")


def test_ranks_have_no_one_pickle(command: Any, tmp_path: Path) -> None:
    files = ranks(tmp_path, samples.leaking())
    command("report", *files, "--memory-viz", tmp_path / "memory.pickle").assert_refused("a pickle")


def test_ranks_become_one_report(command: Any, tmp_path: Path) -> None:
    files = ranks(tmp_path, samples.leaking())
    outcome = command("report", *files, "--json")
    assert [one["run"]["rank"] for one in json.loads(outcome.out)["ranks"]] == [0, 1]
    twice = command("report", files[0], files[0])
    twice.assert_refused("twice")
    assert "two of the reports are of rank 1" in twice.err


def test_runs_one_after_the_other_are_not_taken_for_ranks(command: Any, tmp_path: Path) -> None:
    later = samples.leaking()
    later["run"] |= {"started": "2026-02-01T08:00:00+00:00", "written": "2026-02-01T09:00:00+00:00"}
    files = [written(tmp_path, one, name) for one, name in ((samples.leaking(), "1.json"), (later, "2.json"))]
    for arguments in (files, [*files, "--compare", files[0]], [files[0], "--compare", *files]):
        outcome = command("report", *arguments)
        outcome.assert_refused("runs")
        assert "runs one after the other" in outcome.err


def test_runs_of_several_ranks_are_compared(command: Any, tmp_path: Path) -> None:
    before, after = ranks(tmp_path, samples.leaking(), "before-"), ranks(tmp_path, samples.healthy(), "after-")
    outcome = command("report", *before, "--compare", *after)
    assert outcome.status == 0
    assert "gone:  ada/train.py:42 leaks 768.00 MiB with each epoch" in outcome.out


def test_two_runs_are_compared(command: Any, tmp_path: Path) -> None:
    before, after = written(tmp_path, samples.leaking()), written(tmp_path, samples.healthy(), "mended.json")
    outcome = command("report", before, "--compare", after)
    assert outcome.status == 0
    assert "gone:  ada/train.py:42 leaks 768.00 MiB with each epoch" in outcome.out
    changes = json.loads(command("report", before, "--compare", after, "--json").out)
    assert (changes["schema"], len(changes["verdicts"]["gone"])) == ("frugal_alloc.comparison", 2)


def test_page_of_two_runs_has_both_with_what_is_new_and_gone(command: Any, tmp_path: Path) -> None:
    before, after = samples.leaking(), samples.leaking()
    after["gpus"][0]["peak_allocated_bytes"] -= samples.GIB
    moved = next(site for site in after["sites"] if site["line"] == 44)
    moved |= {"line": 77, "function": "another"}
    after["verdicts"] = []
    page = tmp_path / "page.html"
    files = written(tmp_path, before), "--compare", written(tmp_path, after, "after.json")
    outcome = command("report", *files, "--html", page)
    assert (outcome.status, outcome.out, outcome.err) == (0, "", f"wrote {page}\n")
    text = " ".join(re.sub("<[^>]+>", " ", page.read_text().partition("<body>")[2]).split())
    peak = samples.leaking()["gpus"][0]["peak_allocated_bytes"]
    most = f"{format_bytes(peak)} {format_bytes(peak - samples.GIB)} -1.00 GiB"
    for part in (f"GPU 0 most allocated {most}", "gone : ada/train.py:42 leaks 768.00 MiB with each epoch"):
        assert part in text, part
    assert re.search(r"train\.py:77 new", text) and re.search(r"train\.py:44 gone", text)


def test_logs_of_tensorflow_are_printed(command: Any) -> None:
    outcome = command("report", RECORDED / "growing.log.gz")
    assert (outcome.status, outcome.err) == (0, "")
    assert "leak" in outcome.out
    assert "step" in outcome.out


def test_a_missing_file_is_named(command: Any, tmp_path: Path) -> None:
    outcome = command("report", written(tmp_path, samples.healthy()), "--compare", tmp_path / "none.json")
    assert (outcome.status, outcome.err) == (2, f"frugal-alloc report: {tmp_path / 'none.json'} does not exist\n")
