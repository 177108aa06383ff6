"""What top sees, served to Prometheus: no training needs to be changed for it."""

from __future__ import annotations

import collections
import threading
from collections.abc import Iterator
from typing import Any

from . import metrics, picture

_LABELS = ("pid", "program", "gpu")


class ExporterError(ValueError):
    """It cannot be served; the message says why and what to do."""


def serve(host: str, port: int) -> str:
    """Serves the figures of all processes, read at each scrape, until the process ends; returns the address.

    Raises:
        ExporterError: prometheus-client is not installed, or the address cannot be had.
    """
    try:
        from prometheus_client import CollectorRegistry, start_http_server
    except ImportError:
        raise ExporterError("--prometheus needs prometheus-client: pip install prometheus-client") from None
    registry = CollectorRegistry()
    registry.register(_Collector())
    try:
        server = start_http_server(port, addr=host, registry=registry)[0]
    except (OSError, OverflowError) as error:
        raise ExporterError(f"{host}:{port} cannot be served: {getattr(error, 'strerror', None) or error}") from None
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{server.server_port}/metrics"


class _Collector:
    def __init__(self) -> None:
        self._lock = threading.Lock()

    def collect(self) -> Iterator[Any]:
        # A scraper that hammers does not have all processes asked at once.
        with self._lock:
            seen = picture.take()
        return metrics.families(_LABELS, list(_rows(seen)))

    def describe(self) -> Iterator[Any]:
        return metrics.families(_LABELS, [])


def _rows(seen: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], dict[str, int], dict[str, int]]]:
    for process in seen["processes"]:
        for gpu in process.get("gpus", ()):
            kinds = collections.Counter(
                verdict["kind"] for verdict in process["verdicts"] if verdict["gpu"] == gpu["gpu"]
            )
            figures = {
                "allocated_bytes": gpu["in_use_bytes"],
                "peak_bytes": gpu["peak_in_use_bytes"],
                "reserved_bytes": gpu["held_bytes"],
                "waste_bytes": gpu["waste_bytes"],
                "stitches": gpu["stitches"],
                "out_of_memory_errors": gpu["out_of_memory_errors"],
            }
            if gpu["total_bytes"] is not None and gpu["free_bytes"] is not None:
                figures["outside_bytes"] = max(0, gpu["total_bytes"] - gpu["free_bytes"] - gpu["held_bytes"])
            yield (str(process["pid"]), picture.program_of(process), str(gpu["gpu"])), figures, kinds
