"""Tensors that are shared with other processes: torch.multiprocessing, and all that calls ``_share_cuda_``.

Mapped as our memory is, another process could open it only with a file descriptor for each handle and by a system
call that ordinary containers refuse. So a tensor's bytes move to PyTorch's own allocator as it is first shared.
An address that was taken before that, by a captured graph or another library, is then no longer the tensor's.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import _native


def hook(library: _native.Library) -> None:
    """Lets every storage move before it is shared. Done once; does nothing to memory that is not ours."""
    import torch

    share = torch.UntypedStorage._share_cuda_
    if hasattr(share, "__wrapped__"):
        return

    @functools.wraps(share)
    def share_where_others_can_open(self: torch.UntypedStorage, *args: Any, **kwargs: Any) -> tuple:
        if self.is_cuda:
            library.make_shareable(self._cdata)
        return share(self, *args, **kwargs)

    torch.UntypedStorage._share_cuda_ = share_where_others_can_open  # type: ignore[method-assign]
