"""What documents say in words of a picture, for those who don't see it, has the figures that were recorded."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from pictures import (  # noqa: E402
    address_space,
    detection,
    fragmentation,
    leak_growth,
    memory_over_time,
    recorded,
    reserved_growth,
    serving,
    side_stream,
    tenants,
    tensorflow_growth,
)
from pictures.all_pictures import ALL  # noqa: E402

sys.path.insert(0, str(ROOT / "tests" / "docs"))
from told_figures import GIB, assert_told, gib, word  # noqa: E402

MIB, PIECE = 1 << 20, 2 << 20


def texts() -> Iterator[tuple[str, str, str]]:
    """Of each picture in a document: the document, the picture's name and its text."""
    for path in sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]):
        for said, name in re.findall(r"!\[([^\]]*)\]\([^)]*?(\w+)\.svg\)", path.read_text(encoding="utf-8")):
            yield str(path.relative_to(ROOT)), name, " ".join(said.split())


def mib(size: int) -> str:
    return f"{size / MIB:,.0f} MiB"


def most(run: dict[str, Any]) -> tuple[str, str]:
    """The most in use, and the most held."""
    used, held = zip(*run["steps"], strict=True)
    return gib(max(used)), gib(max(held))


def of_memory_over_time() -> list[str]:
    run = recorded.read(memory_over_time.DATA)
    (thirds,) = {round(3 * run[one]["failed_at"] / run["events"]) for one in ("native", "expandable")}
    need = max(size for _, size in run["live_bytes"])
    ends = f"runs out of memory after {word(thirds)} thirds of the run, with expandable segments and without"
    assert run["frugal"]["failed_at"] is None
    return [f"needs {gib(need)} at most", f"On a GPU of {gib(run['gpu_bytes'])}", ends]


def of_leak_growth() -> list[str]:
    run = recorded.read(leak_growth.DATA)["leaking"]
    epoch, _, left = next(one for one in run["forecasts"] if one[1] == "leak")
    return [f"runs out in epoch {run['failed_in']}", f"After epoch {epoch} the report", f"for {left:.1f} more epochs"]


def of_address_space() -> list[str]:
    run = recorded.read(address_space.DATA)
    pieces = len(run["before"]["pieces"])
    free = [size // PIECE for _, size, state in run["before"]["blocks"] if state == "inactive"]
    wanted = run["wanted"][1] // PIECE
    are_free = f"Of {pieces} pieces of memory, {word(sum(free))} are free, at most {word(max(free))} in a row"
    return [are_free, f"After a request for {word(wanted)}, {word(wanted)} of the free ones"]


def of_fragmentation() -> list[str]:
    free = fragmentation.MEMORY.count(".")
    longest = max(len(list(group)) for one, group in itertools.groupby(fragmentation.MEMORY) if one == ".")
    wanted = word(fragmentation.REQUEST)
    are_free = f"{word(free)} of {len(fragmentation.MEMORY)} pieces of GPU memory are free"
    row = f"at most {word(longest)} in a row"
    return [are_free.capitalize().replace("gpu", "GPU"), row, f"a tensor of {wanted} pieces", f"{wanted} free pieces"]


def of_reserved_growth() -> list[str]:
    data = recorded.read(reserved_growth.DATA)
    retry = reserved_growth.first_retry(data["both_options"])
    others = (data[run] for run in reserved_growth.RUNS if run != "both_options")
    assert max(held for requests in others for _, held, _ in requests) < 500 * MIB
    grows = f"grows to {mib(data['both_options'][retry - 1][1])} by request {retry - 1}"
    return [grows, "With one of the settings or none, and with frugal_alloc, it stays below 500 MiB"]


def of_side_stream() -> list[str]:
    data = recorded.read(side_stream.DATA)
    runs = {one: data[one]["side_stream"] for one in side_stream.ALLOCATORS}
    above = {one: gib(run["reserved"] - run["allocated"]) for one, run in runs.items()}
    return [
        f"PyTorch's allocator holds up to {above['native']} more than tensors need",
        f"{above['expandable']} more with expandable segments",
        f"frugal_alloc holds up to {above['frugal']} more",
    ]


def of_tensorflow_growth() -> list[str]:
    data = recorded.read(tensorflow_growth.DATA)
    first, last, healed = data["growing"][0], data["growing"][-1], data["healed"][-1]
    return [
        f"from {mib(first[2])} to {mib(last[2])}",
        f"TensorFlow may take {mib(data['limit_bytes'])}",
        f"runs out in step {last[0] + 1}",
        f"The healed training needs {mib(healed[2])} after {healed[0]} steps",
    ]


def of_detection() -> list[str]:
    data = recorded.read(detection.DATA)
    held, failed = {one: most(data[one])[1] for one in detection.stories.NAMES}, data["native"]["failed_in"]
    needs = gib(data["frugal"]["steps"][failed - 1][0])
    return [
        f"PyTorch's allocator holds up to {held['native']} and runs out of memory in step {failed}, in which tensors "
        f"need {needs}",
        f"all {len(data['frugal']['steps'])} steps complete",
        f"{held['expandable'].removesuffix(' GiB')} and {held['frugal']} are held",
    ]


def of_serving() -> list[str]:
    data = recorded.read(serving.DATA)
    runs = {one: most(data[f"{one}_{serving._DRAWN}"]) for one in serving.stories.NAMES}
    return [
        f"PyTorch's allocator holds up to {runs['native'][1]} where tensors fill {runs['frugal'][0]}",
        f"with expandable segments {runs['expandable'][1]}",
        f"frugal_alloc {runs['frugal'][1]}",
    ]


def of_tenants() -> list[str]:
    data = recorded.read(tenants.DATA)
    held = {run: gib(max(held for _, held in tenants.both(data[run]))) for run in tenants.RUNS}
    available = tenants.AVAILABLE // GIB
    assert data["native_keeps"]["failed"] == "server" and not data["native_gives_back"]["failed"]
    return [
        f"both hold {held['native_keeps'].removesuffix(' GiB')} of {available} GiB when the server runs out of memory",
        f"both hold at most {held['native_gives_back']} with PyTorch and {held['frugal_gives_back']} with frugal_alloc",
    ]


FIGURES = {
    "memory_over_time": of_memory_over_time,
    "leak_growth": of_leak_growth,
    "address_space": of_address_space,
    "fragmentation": of_fragmentation,
    "reserved_growth": of_reserved_growth,
    "side_stream": of_side_stream,
    "tensorflow_growth": of_tensorflow_growth,
    "detection": of_detection,
    "serving": of_serving,
    "tenants": of_tenants,
}


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.FILE.stem)
def test_picture_is_shown_in_a_document(one: ModuleType) -> None:
    assert one.FILE.stem in FIGURES and one.FILE.stem in {name for _, name, _ in texts()}


@pytest.mark.parametrize("document, picture, said", [pytest.param(*one, id=f"{one[1]}-{one[0]}") for one in texts()])
def test_words_of_a_picture_have_its_figures_and_no_others(document: str, picture: str, said: str) -> None:
    assert len(said.split()) > 10
    assert_told(said, FIGURES[picture]())
