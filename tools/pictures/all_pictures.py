"""The pictures that `python tools/pictures` writes.

Each is a module with its FILE and picture(), the file's text. Those that show a run have DATA, too, a file of what was
recorded, and record(), which makes that again.
"""

from . import (
    address_space,
    detection,
    fragmentation,
    leak_growth,
    memory_over_time,
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
