"""What the nodes of autograd's graphs have saved, as far as it can be told without running code of the program's."""

from __future__ import annotations

from typing import Any

# The attributes of each class of nodes that hold what it saved.
_names: dict[type, tuple[str, ...]] = {}


def saved_tensors(node: Any) -> list[Any]:
    """The tensors that a node has saved as they are.

    Unpacking anything else runs a hook that may compute it again or bring it back from the host, which needs memory.
    """
    kind = type(node)
    names = _names.get(kind)
    if names is None:
        names = _names[kind] = tuple(name for name in dir(kind) if name.startswith("_raw_saved_"))
    found = []
    for name in names:
        try:
            values = getattr(node, name)
        except RuntimeError:  # let go by a backward
            continue
        for saved in values if isinstance(values, (tuple, list)) else (values,):
            if getattr(saved, "unpack_hook", True) is None and (data := getattr(saved, "data", None)) is not None:
                found.append(data)
    return found
