"""Memory as Prometheus gauges, read whenever they are scraped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import _figures
from ._following import missing

try:
    from prometheus_client import REGISTRY
    from prometheus_client.core import GaugeMetricFamily
except ImportError:
    raise missing("prometheus", "prometheus-client") from None

_HELP = {
    "allocated": "GPU memory in tensors",
    "peak": "Most GPU memory that was in tensors at a time",
    "reserved": "GPU memory held by PyTorch's allocators",
    "outside": "GPU memory that neither frugal_alloc nor PyTorch holds",
}


class _Collector:
    def collect(self) -> Iterator[Any]:
        figures = _figures.by_gpu()
        for name, text in _HELP.items():
            gauge = GaugeMetricFamily(f"frugal_alloc_{name}_bytes", text, labels=["gpu"])
            for gpu, sizes in figures.items():
                gauge.add_metric([str(gpu)], sizes[name])
            yield gauge


def register(registry: Any = REGISTRY) -> Any:
    """Adds gauges ``frugal_alloc_allocated_bytes{gpu="0"}`` and so on to a registry; returns what unregisters them
    (``registry.unregister``). They have no values where frugal_alloc is not enabled."""
    collector = _Collector()
    registry.register(collector)
    return collector
