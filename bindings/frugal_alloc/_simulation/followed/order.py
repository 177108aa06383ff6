"""What a command tells the one who follows a program, through the environment."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from ..._common import startup

#: The variable with all of it.
NAME = "FRUGAL_FOLLOW"
# Newer versions of PyTorch read the first.
_SETTINGS = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")


def put(base: Mapping[str, str], follower: str, folder: str, allocator: str, **options: Any) -> dict[str, str]:
    """The environment of a program that is followed.

    Args:
        follower: The module in this package whose ``start`` is called once PyTorch is imported.
        folder: For the messages.
        allocator: "native", "expandable" or "frugal".
    """
    result = dict(base)
    order = {"follower": follower, "folder": folder, "allocator": allocator, **options}
    result[NAME] = json.dumps(order)
    if allocator == "expandable":
        for name in _SETTINGS:
            kept = [part for part in result.get(name, "").split(",") if part and "expandable_segments" not in part]
            result[name] = ",".join([*kept, "expandable_segments:True"])
    startup.add("follower", result)
    return result


def given() -> Mapping[str, Any]:
    """To this process, by the names of put()'s arguments."""
    return json.loads(os.environ[NAME])
