"""Memory that a block leaves behind, on several GPUs: without any."""

from __future__ import annotations

import pytest
from frugal_alloc._tracking import no_leaks
from frugal_alloc._tracking.no_leaks import LeakError, NoLeaks

MIB = 1 << 20


def test_what_one_gpu_lets_go_makes_up_for_nothing_on_another(monkeypatch: pytest.MonkeyPatch) -> None:
    in_use = iter([{0: 100 * MIB, 1: 100 * MIB}, {0: 160 * MIB, 1: 0}])
    monkeypatch.setattr(no_leaks, "_in_use", lambda: next(in_use))
    with pytest.raises(LeakError, match=r"60.0+ MiB on GPU 0"), NoLeaks(10 * MIB):
        pass
