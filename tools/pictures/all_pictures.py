"""The pictures that `python tools/pictures` writes.

Each is a module with its FILE, picture(), the file's text, and told(), what documents say of it, by key. Those that
show a run have DATA, too, a file of what was recorded, and record(), which makes that again.
"""

from . import (
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

RECORDED = (
    *(memory_over_time, address_space, leak_growth),
    *(reserved_growth, side_stream, tensorflow_growth),
    *(detection, serving, tenants),
)
ALL = (fragmentation, *RECORDED)


def told() -> dict[str, dict[str, str]]:
    """By module, what documents say of its picture."""
    return {one.FILE.stem: one.told(recorded.read(one.DATA)) if one in RECORDED else one.told() for one in ALL}
