"""Handles of memory that strangers send: damaged, cut short, made up, of a process that has gone or of another user.

Each is refused with an error that says so, and the process goes on. Handles are not signed: one that is whole and names
memory that a living process shares is as good as the one that this process made.
"""

import os
import random
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import torch

sys.path.append(str(Path(__file__).resolve().parents[1] / "bad_input"))
import hostile
from binding_helpers import MIB, collect, empty, run_python, run_well, simulated_gpu

SEED, DAMAGED = 7, 400


def open_handle(handle: bytes, arguments: tuple) -> torch.UntypedStorage:
    """What torch.multiprocessing does with what it receives."""
    return torch.UntypedStorage._new_shared_cuda(arguments[0], handle, *arguments[2:])


@pytest.fixture
def sent():
    """What another process would be sent for a tensor of ours, and the tensor."""
    tensor = empty(4 * MIB)
    arguments = tensor.untyped_storage()._share_cuda_()
    yield arguments, tensor
    torch.UntypedStorage._release_ipc_counter(arguments[4], arguments[5], device=arguments[0])


def assert_alive() -> None:
    tensor = empty(8 * MIB)
    assert tensor.numel() == 8 * MIB
    del tensor
    collect()


def expandable(process: int, segment_size: int, count: int, descriptors: bytes) -> bytes:
    return b"\x02e" + struct.pack("@iQQ", process, segment_size, count) + descriptors


MADE_UP = {
    "one byte": b"\x02",
    "a form without a handle": b"\x02c",
    "of a newer form": b"\x09c" + bytes(64),
    "of a negative form": b"\xf0c" + bytes(64),
    "of another kind": b"\x02x" + bytes(64),
    "too short": b"\x02c" + bytes(63),
    "too long": b"\x02c" + bytes(65),
    "far too long": b"\x02c" + bytes(10 * MIB),
    "expandable and nothing more": b"\x02e",
    "expandable, without a size": expandable(os.getpid(), 0, 1, bytes(4)),
    "expandable, of an odd size": expandable(os.getpid(), 12345, 1, bytes(4)),
    "expandable, without end": expandable(os.getpid(), 2 * MIB, 1 << 62, bytes(4)),
    "expandable, with fewer than it says": expandable(os.getpid(), 2 * MIB, 3, bytes(8)),
    "expandable, of no process": expandable(-1, 2 * MIB, 1, bytes(4)),
    "expandable, of nobody's descriptor": expandable(os.getpid(), 2 * MIB, 1, struct.pack("i", 9999)),
    "expandable, of what is no memory": expandable(os.getpid(), 2 * MIB, 1, struct.pack("i", 0)),
    "zeros": b"\x02c" + bytes(64),
    "ones": b"\x02c" + b"\xff" * 64,
    "zeros, as old PyTorch's": bytes(64),
}


@pytest.mark.parametrize("kind", MADE_UP)
def test_what_is_made_up_is_refused(kind, sent):
    with pytest.raises(RuntimeError):
        open_handle(MADE_UP[kind], sent[0])
    assert_alive()


@simulated_gpu
def test_damaged_handles_do_no_harm(sent):
    arguments, tensor = sent
    genuine = arguments[1]
    chance = random.Random(SEED)
    refused = 0
    for _ in range(DAMAGED):
        try:
            open_handle(hostile.damaged(genuine, chance), arguments)
        except (RuntimeError, SystemError) as error:  # SystemError: PyTorch's own, of one without a byte
            refused += 1
            assert str(error)
    print(f"{DAMAGED} damaged handles, seed {SEED}: {refused} refused")
    assert refused > DAMAGED // 2
    assert tensor.numel() == 4 * MIB
    assert_alive()


SHARING = """
import torch, frugal_alloc
frugal_alloc.enable()
storage = torch.zeros(1 << 20, dtype=torch.uint8, device="cuda").untyped_storage()
report(handle=storage._share_cuda_()[1].hex())
"""


def test_what_pytorch_crashes_of_before_cuda_has_started_is_answered(sent):
    result = run_well(
        f"""
import torch, frugal_alloc
frugal_alloc.enable()
report(recorded=torch._C._cuda_isHistoryEnabled(), started=torch.cuda.is_initialized())
storage = torch.UntypedStorage._new_shared_cuda(*{sent[0]!r})
report(opened=storage.nbytes(), started_then=torch.cuda.is_initialized())
"""
    )
    assert (result["recorded"], result["started"]) == (False, False)
    assert (result["opened"], result["started_then"]) == (sent[0][2], True)


def test_a_handle_of_a_process_that_has_gone_is_refused(sent):
    gone = bytes.fromhex(run_python(SHARING)["handle"])
    for _ in range(2):
        with pytest.raises(RuntimeError):
            open_handle(gone, sent[0])
    assert_alive()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_handle_is_refused_to_another_user(sent):
    # Another user may not be able to start this Python, which can lie in root's own folders.
    code = (
        "import os, torch, frugal_alloc\nfrugal_alloc.enable()\ntorch.zeros(1, device='cuda')\n"
        "os.setgroups([])\nos.setgid(65534)\nos.setuid(65534)\n"
        f"try:\n    torch.UntypedStorage._new_shared_cuda(*{sent[0]!r})\n"
        "except RuntimeError as error:\n    print('REFUSED', str(error).splitlines()[0])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert "REFUSED" in done.stdout, done
