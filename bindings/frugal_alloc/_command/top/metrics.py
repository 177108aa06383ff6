"""The metrics that Prometheus is given, by a program itself or by ``frugal-alloc top``: one table for both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

#: Of each GPU: the figure's key, and what it is. Names are "frugal_alloc_" and the key; of counts, "_total" follows.
GAUGES = {
    "allocated_bytes": "GPU memory in tensors",
    "peak_bytes": "Most GPU memory that was in tensors at a time",
    "reserved_bytes": "GPU memory held by PyTorch's allocators",
    "waste_bytes": "GPU memory that is held and in no tensor",
    "outside_bytes": "GPU memory that neither frugal_alloc nor PyTorch holds",
}
COUNTERS = {
    "stitches": "Ranges built of free memory that lay apart",
    "out_of_memory_errors": "Requests that failed since memory was out",
}
#: Of each GPU and kind of verdict.
VERDICTS = "verdicts"
VERDICTS_HELP = "Lines that leak or grow, as of the latest end of an epoch, by kind of verdict"
KINDS = ("leak", "suspect", "growing", "cycle", "outside")


def names() -> list[str]:
    """All metrics, as Prometheus stores them."""
    return [
        *(f"frugal_alloc_{key}" for key in (*GAUGES, VERDICTS)),
        *(f"frugal_alloc_{key}_total" for key in COUNTERS),
    ]


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
