"""What Prometheus is given, by a program itself and by ``frugal-alloc top``, and the files that rest on it."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from frugal_alloc._command.top import metrics
from published import LEAKING, MIB, running

ROOT = Path(__file__).resolve().parents[2]
DASHBOARD = ROOT / "examples" / "monitoring" / "grafana.json"
ALERTS = ROOT / "examples" / "monitoring" / "alerts.yml"
PAGE = ROOT / "docs" / "monitoring.md"
NAME = re.compile(r"\bfrugal_alloc_[a-z_]+\b")

# As Prometheus stores them.
NAMES = {
    *(f"frugal_alloc_{key}" for key in (*metrics.GAUGES, metrics.VERDICTS)),
    *(f"frugal_alloc_{key}_total" for key in metrics.COUNTERS),
}

client = pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")

SCRAPED = f"""
from prometheus_client import CollectorRegistry, generate_latest
from frugal_alloc.integrations import prometheus
registry = CollectorRegistry()
prometheus.register(registry)
{LEAKING}
tell(
    text=generate_latest(registry).decode(),
    in_use=torch.cuda.memory_allocated(),
    held=torch.cuda.memory_reserved(),
)
await_order()
"""


def values(text: str) -> dict[tuple[str, frozenset[str]], float]:
    """By name and labels."""
    rows = [re.fullmatch(r"(\w+)\{(.*)\} (\S+)", row) for row in text.splitlines() if row[:1] != "#"]
    return {(row[1], frozenset(row[2].split(","))): float(row[3]) for row in rows if row is not None}


def of_gpu(name: str, *labels: str) -> tuple[str, frozenset[str]]:
    return f"frugal_alloc_{name}", frozenset(['gpu="0"', *labels])


def test_program_and_top_export_the_same(tmp_path: Path) -> None:
    with running(SCRAPED, tmp_path) as program:
        told = program.told()
        own = values(told["text"])
        top = [sys.executable, "-m", "frugal_alloc", "top", "--prometheus", "0"]
        with subprocess.Popen(top, stdout=subprocess.PIPE, text=True) as exporter:
            address = exporter.stdout.readline().removeprefix("serving ").strip()  # type: ignore[union-attr]
            with urllib.request.urlopen(address) as answer:
                tops = values(answer.read().decode())
            exporter.send_signal(2)
            assert exporter.wait(timeout=60) == 130
        others = [f'pid="{told["pid"]}"', 'program="train.py"']
        for (name, labels), value in own.items():
            assert tops[name, labels | set(others)] == value, name
        assert own[of_gpu("allocated_bytes")] == told["in_use"] == 78 * MIB
        assert own[of_gpu("waste_bytes")] == told["held"] - told["in_use"]
        assert own[of_gpu("out_of_memory_errors_total")] == 1
        assert own[of_gpu("verdicts", 'kind="leak"')] == 1
        assert own[of_gpu("verdicts", 'kind="suspect"')] == 0
        assert {name for name, _ in own} == NAMES


def test_address_that_is_taken_is_refused(command: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        outcome = command("top", "--prometheus", str(port))
    assert outcome.status == 2
    assert outcome.err.startswith(f"frugal-alloc top: 127.0.0.1:{port} cannot be served: Address already in use")


def test_without_the_client_top_says_what_to_install(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    outcome = command("top", "--prometheus", "0")
    assert (outcome.status, outcome.err.count("\n")) == (2, 1)
    assert "pip install prometheus-client" in outcome.err


def test_metrics_of_the_table_are_those_that_are_exported() -> None:
    rows = re.findall(r"^\| `(frugal_alloc_\w+)` \|", PAGE.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(NAMES)


def test_dashboard_shows_metrics_that_are_exported() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    assert {name for one in expressions for name in NAME.findall(one)} == NAMES
    identities = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(identities)) == len(identities)


def test_alerts_rest_on_metrics_that_are_exported() -> None:
    used = NAME.findall("\n".join(re.findall(r"^ +expr: (.+)$", ALERTS.read_text(), re.MULTILINE)))
    assert used and set(used) <= NAMES


def test_page_names_no_metric_that_is_not_exported() -> None:
    assert {name for name in NAME.findall(PAGE.read_text()) if name != "frugal_alloc_dashboard"} <= NAMES
