"""The figures of README.md follow from those of each run in bench/measured."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
# By the words of README.md, the name of the run; those that are not among them were made up.
RECORDED = {
    "GPT-2, texts of any length": "gpt60",
    "GPT-2 inference": "gpt_inference",
    "decoder, growing caches": "gpt_decoder",
    "BERT, texts of any length": "bert60",
    "ViT, half precision": "vit_mixed",
    "ResNet-50, batches of any size": "resnet60",
    "Faster R-CNN, images of any size": "frcnn60",
    "diffusion and sampling": "diffusion",
    "ConvNeXt, second stream": "prefetch",
    "Mosaic's test snapshot, four streams": "mosaic",
    "HTA's test profile": "hta_df_index_resolver",
}


def measured(name: str, column: str) -> dict[str, list[float]]:
    """By run, what a cell of the table has beside each other."""
    with open(ROOT / "bench" / "measured" / f"{name}.csv", encoding="utf-8") as file:
        return {row["history"]: [float(part) for part in row[column].split(" / ")] for row in csv.DictReader(file)}


LIVE = {run: live for run, (live,) in measured("least_memory", "live GiB").items()}
# Over the live memory: ours, expandable segments, PyTorch's default.
SMALLEST = measured("memory", "smallest GPU")
LINES = README.split("| recorded run |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
# By the first cell, the others.
TABLE = {first: others for first, *others in ([cell.strip() for cell in line.strip("|").split("|")] for line in LINES)}


def test_every_recorded_run_is_in_the_table() -> None:
    recorded = {path.name.split(".")[0] for path in (ROOT / "bench" / "histories").glob("*.xz")}
    assert TABLE.keys() == RECORDED.keys() and set(RECORDED.values()) == recorded & SMALLEST.keys()


@pytest.mark.parametrize("words", RECORDED)
def test_smallest_gpu_of_a_run_is_what_was_measured(words: str) -> None:
    run = RECORDED[words]
    native, expandable, ours = map(float, TABLE[words])
    # Both documents are rounded.
    told = [ours, expandable, native]
    assert told == pytest.approx([LIVE[run] * ratio for ratio in SMALLEST[run]], abs=0.012)


def test_runs_that_fit_on_a_smaller_gpu_with_pytorch_are_as_many_as_it_says() -> None:
    larger = {run: ours / min(theirs) for run, (ours, *theirs) in SMALLEST.items() if ours > min(theirs)}
    assert not larger.keys() & set(RECORDED.values())
    said = re.search(r"In 3 of (\d+) runs, all synthetic .* needs up to (\d) % less", README)
    assert int(said[1]) == len(SMALLEST) and len(larger) == 3
    assert round(100 * (max(larger.values()) - 1)) == int(said[2])
