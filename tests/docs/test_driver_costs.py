"""The table of driver costs in docs/simulated_gpu_inside.md is the one that is used: names, figures and words."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COST = re.compile(r"^ *X\((\w+), ([\d']+), \"(.*?)\"\) *\\?$", re.MULTILINE)
ROW = re.compile(r"^\| (\w+) \| ([\d.]+) \| (.+) \|$", re.MULTILINE)


def test_table_of_costs_is_the_one_that_is_used() -> None:
    source = (ROOT / "allocator" / "port" / "driver_cost_table.h").read_text()
    used = [(name, int(figure.replace("'", "")), what) for name, figure, what in COST.findall(source)]
    assert len(used) >= 14 and ("map", 2000, "a handle") in used
    page = (ROOT / "docs" / "simulated_gpu_inside.md").read_text()
    section = page.split("### The latency model\n", 1)[1].split("\n### ", 1)[0]
    told = [(name, round(float(figure) * 1000), what) for name, figure, what in ROW.findall(section)]
    assert told == used
