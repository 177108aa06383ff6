"""The pictures that `python tools/pictures` writes.

Each is a module with told(), what documents say of it by key, and chart() or picture(), what is drawn; some only have
figures. All but `architecture`, `fragmentation` and `out_of_memory` are of a run: record() makes it, a file of
docs/pictures keeps it.
"""

import pathlib
from types import ModuleType

from . import (
    ROOT,
    address_space,
    architecture,
    detection,
    embedding_stash,
    fragmentation,
    leak_growth,
    line_chart,
    memory_over_time,
    out_of_memory,
    recorded,
    reserved_growth,
    serving,
    side_stream,
    tenants,
    tensorflow_growth,
    turns,
)

RECORDED = (
    *(memory_over_time, address_space, leak_growth),
    *(reserved_growth, side_stream, tensorflow_growth),
    *(detection, serving, tenants, embedding_stash, turns),
)
ALL = (architecture, fragmentation, *(one for one in RECORDED if hasattr(one, "chart") or hasattr(one, "picture")))


def name_of(picture: ModuleType) -> str:
    return picture.__name__.rpartition(".")[2]


def file_of(picture: ModuleType) -> pathlib.Path:
    folder = ROOT / "docs" if picture is fragmentation else recorded.FOLDER
    return folder / f"{name_of(picture)}.svg"


def drawn(picture: ModuleType) -> str:
    """The text of its file."""
    if picture not in RECORDED:
        return picture.picture()
    data = recorded.read(name_of(picture))
    if not hasattr(picture, "chart"):
        return picture.picture(data)
    return line_chart.line_chart(picture.chart(data), picture.told(data)["said"])


def told() -> dict[str, dict[str, str]]:
    """By module, what documents say of it."""
    figures = {name_of(picture): picture.told(recorded.read(name_of(picture))) for picture in RECORDED}
    return {name_of(picture): picture.told() for picture in (architecture, fragmentation, out_of_memory)} | figures
