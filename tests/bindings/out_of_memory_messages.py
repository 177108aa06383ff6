"""Runs out of memory, and reads what the error says."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import pytest
import torch
from binding_helpers import GIB, MIB, empty, room


def failure(run: Any, *arguments: Any, **options: Any) -> str:
    """Runs something that must run out of memory; returns the error's text."""
    with pytest.raises(torch.OutOfMemoryError) as raised:
        run(*arguments, **options)
    text = str(raised.value)
    raised.value.__traceback__ = None
    return text


@contextlib.contextmanager
def leaving(free: int) -> Any:
    """Within it, so many bytes of the GPU can be had, and 2 GiB of ours are live."""
    with room(free + 2 * GIB):
        blocker = empty((torch.cuda.mem_get_info()[0] - free) // (2 * MIB) * 2 * MIB)
        yield
        del blocker


def line_of(label: str, text: str) -> str:
    """What the message says under a label, its lines joined."""
    found = re.search(rf"^{label}\s+(.*(?:\n {{14}}.*)*)", text, re.MULTILINE)
    assert found, text
    return re.sub(r"\s+", " ", found[1])
