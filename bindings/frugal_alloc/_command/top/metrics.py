"""The metrics that Prometheus is given, by a program itself or by ``frugal-alloc top``: one table for both; and what
top sees, served to it, for which no training needs to be changed."""

from __future__ import annotations

import collections
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..._common.messages import Refused
from ..._report.headline import KIND_NAMES
from . import picture

#: Of each GPU: the figure's key, and what it is. Names are "frugal_alloc_" and the key; of counts, "_total" follows.
GAUGES = {
    "allocated_bytes": "GPU memory allocated to tensors",
    "peak_bytes": "Most GPU memory that was allocated at a time",
    "reserved_bytes": "GPU memory reserved by PyTorch's allocators",
    "waste_bytes": "GPU memory that is reserved and not allocated",
    "outside_bytes": "GPU memory that neither frugal_alloc nor PyTorch has reserved",
}
COUNTERS = {
    "stitches": "Ranges built of free memory that lay apart",
    "out_of_memory_errors": "Requests that failed since memory was out",
}
#: Of each GPU and kind of verdict.
VERDICTS = "verdicts"
VERDICTS_HELP = "Lines that leak or grow, as of the latest end of an epoch, by kind of verdict"
KINDS = tuple(KIND_NAMES)


def families(
    labels: tuple[str, ...], rows: Iterable[tuple[tuple[str, ...], Mapping[str, int], Mapping[str, int]]]
) -> Iterator[Any]:
    """What a collector gives.

    Args:
        labels: The labels' names; the last of them is "gpu".
        rows: The labels, the figures by key, and how many verdicts there are of each kind.
    """
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    rows = list(rows)
    for kind, texts in ((GaugeMetricFamily, GAUGES), (CounterMetricFamily, COUNTERS)):
        for key, text in texts.items():
            family = kind(f"frugal_alloc_{key}", text, labels=labels)
            for values, figures, _ in rows:
                if key in figures:
                    family.add_metric(values, figures[key])
            yield family
    verdicts = GaugeMetricFamily(f"frugal_alloc_{VERDICTS}", VERDICTS_HELP, labels=(*labels, "kind"))
    for values, _, counts in rows:
        for name in KINDS:
            verdicts.add_metric((*values, name), counts.get(name, 0))
    yield verdicts


# --- What top sees.

_LABELS = ("pid", "program", "gpu")


def serve(host: str, port: int) -> str:
    """Serves the figures of all processes, read at each scrape, until the process ends; returns the address.

    Raises:
        Refused: prometheus-client is not installed, or the address cannot be had.
    """
    try:
        from prometheus_client import CollectorRegistry, start_http_server
    except ImportError:
        raise Refused("--prometheus needs prometheus-client: pip install prometheus-client") from None
    registry = CollectorRegistry()
    registry.register(_Collector())
    try:
        server = start_http_server(port, addr=host, registry=registry)[0]
    except (OSError, OverflowError) as error:
        raise Refused(f"{host}:{port} cannot be served: {getattr(error, 'strerror', None) or error}") from None
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{server.server_port}/metrics"


class _Collector:
    def __init__(self) -> None:
        self._lock = threading.Lock()

    def collect(self) -> Iterator[Any]:
        # A scraper that hammers does not have all processes asked at once.
        with self._lock:
            seen = picture.take()
        return families(_LABELS, list(_rows(seen)))

    def describe(self) -> Iterator[Any]:
        return families(_LABELS, [])


def _rows(seen: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], dict[str, int], dict[str, int]]]:
    for process in seen["processes"]:
        for gpu in process.get("gpus", ()):
            kinds = collections.Counter(
                verdict["kind"] for verdict in process["verdicts"] if verdict["gpu"] == gpu["gpu"]
            )
            figures = {
                **{key: gpu[key] for key in (*GAUGES, *COUNTERS) if key in gpu},
                "peak_bytes": gpu["peak_allocated_bytes"],
            }
            if gpu["total_bytes"] is not None and gpu["free_bytes"] is not None:
                figures["outside_bytes"] = max(0, gpu["total_bytes"] - gpu["free_bytes"] - gpu["reserved_bytes"])
            yield (str(process["pid"]), picture.program_of(process), str(gpu["gpu"])), figures, kinds
