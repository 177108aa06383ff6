"""Memory as Prometheus metrics, read whenever they are scraped."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Any

from .._command.top import metrics
from .._report import live_verdicts
from . import _figures
from ._following import missing

try:
    from prometheus_client import REGISTRY
except ImportError:
    raise missing("prometheus", "prometheus-client") from None


class _Collector:
    def collect(self) -> Iterator[Any]:
        verdicts: dict[int, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        for verdict in live_verdicts.latest():
            verdicts[verdict.gpu][verdict.kind] += 1
        rows = (((str(gpu),), figures, verdicts[gpu]) for gpu, figures in _figures.by_gpu().items())
        return metrics.families(("gpu",), rows)

    def describe(self) -> Iterator[Any]:
        """What a registry asks when it is given the collector: before CUDA has started, too."""
        return metrics.families(("gpu",), [])


def register(registry: Any = REGISTRY) -> Any:
    """Adds ``frugal_alloc_allocated_bytes{gpu="0"}`` and so on to a registry; returns what unregisters them
    (``registry.unregister``). docs/monitoring.md has all of them. They have no values where frugal_alloc is not
    enabled."""
    collector = _Collector()
    registry.register(collector)
    return collector
