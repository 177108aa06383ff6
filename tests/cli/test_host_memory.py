"""How much memory is free, as the machine, control groups and limits tell."""

from __future__ import annotations

import resource

import pytest
from frugal_alloc._common import host_memory

MIB = 1 << 20
MACHINE = {"/proc/meminfo": "MemTotal: 9 kB\nMemAvailable:    1048576 kB\n"}
INNER = {
    "/proc/self/cgroup": "1:cpu:/other\n0::/outer/inner\n",
    "/sys/fs/cgroup/outer/inner/memory.max": f"{900 * MIB}\n",
    "/sys/fs/cgroup/outer/inner/memory.current": f"{500 * MIB}\n",
    "/sys/fs/cgroup/outer/inner/memory.stat": f"anon 1\ninactive_file {100 * MIB}\n",
    "/sys/fs/cgroup/outer/memory.max": "max\n",
    "/sys/fs/cgroup/outer/memory.current": f"{500 * MIB}\n",
}
OUTER = INNER | {"/sys/fs/cgroup/outer/memory.max": f"{520 * MIB}\n"}


@pytest.mark.parametrize(
    ("files", "mib"),
    [({}, None), (MACHINE, 1024), (MACHINE | INNER, 500), (INNER, 500), (MACHINE | OUTER, 20)],
    ids=["nothing is known", "a machine", "a group", "a group alone", "a group in a smaller one"],
)
def test_the_least_that_is_left_counts(files: dict[str, str], mib: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_memory, "_read", lambda path: files.get(str(path), ""))
    monkeypatch.setattr(host_memory.resource, "getrlimit", lambda kind: (resource.RLIM_INFINITY,) * 2)
    assert host_memory.available_bytes() == (None if mib is None else mib * MIB)


def test_limit_on_the_address_space_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_memory, "_read", lambda path: "")
    monkeypatch.setattr(host_memory, "mapped_bytes", lambda: 700 * MIB)
    monkeypatch.setattr(host_memory.resource, "getrlimit", lambda kind: (1000 * MIB, resource.RLIM_INFINITY))
    assert host_memory.available_bytes() == 300 * MIB
    monkeypatch.setattr(host_memory, "mapped_bytes", lambda: 1100 * MIB)
    assert host_memory.available_bytes() == 0
