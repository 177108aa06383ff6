"""The folder that a run writes into, and the environment in which its processes write nowhere else."""

from __future__ import annotations

import os
import site
from collections.abc import Mapping
from pathlib import Path

from .step_report import write_json

PACKAGES = Path(__file__).resolve().parents[2]

# They would change what is measured, or belong to whoever runs it: the steps set what they need.
_LEFT_OUT = (
    "FRUGAL_ALLOC",
    "FRUGAL_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "PYTHONSTARTUP",
)


class CannotRun(Exception):
    """The kit cannot run here; the message is one line that says what to do."""


def prepare(out: Path) -> Path:
    """Makes the folder, empty, and tries it.

    Raises:
        CannotRun: it cannot be written, or has files of somebody's.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise CannotRun(f"{out} is not empty; name a new folder with --out")
        for name in ("steps", "tmp", "home", "cache"):
            (out / name).mkdir()
        write_json(out / "results.json", {})
    except OSError as error:
        raise CannotRun(
            f"{out} cannot be written ({error.strerror or error}); name another folder with --out"
        ) from None
    return out.resolve()


def environment(out: Path, base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """For the processes of a run into `out`: what they would leave elsewhere lands there.

    Raises:
        CannotRun: Python cannot be told where we are.
    """
    if os.pathsep in str(PACKAGES):
        raise CannotRun(f"the path of the check has a {os.pathsep} in it, put it elsewhere: {PACKAGES}")
    result = {name: value for name, value in base.items() if name not in _LEFT_OUT}
    result.update(
        {
            "PYTHONDONTWRITEBYTECODE": "1",
            # Where a torch that was installed with pip --user is found follows from HOME.
            "PYTHONUSERBASE": base.get("PYTHONUSERBASE") or site.getuserbase(),
            "HOME": str(out / "home"),
            "TMPDIR": str(out / "tmp"),
            "XDG_CACHE_HOME": str(out / "cache"),
            "XDG_CONFIG_HOME": str(out / "home"),
            "XDG_DATA_HOME": str(out / "home"),
            "CUDA_CACHE_PATH": str(out / "cache" / "cuda"),
            "TRITON_CACHE_DIR": str(out / "cache" / "triton"),
            "TORCHINDUCTOR_CACHE_DIR": str(out / "cache" / "inductor"),
            "CUPY_CACHE_DIR": str(out / "cache" / "cupy"),
        }
    )
    entries = [str(PACKAGES), *filter(None, base.get("PYTHONPATH", "").split(os.pathsep))]
    result["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(entries))
    return result
