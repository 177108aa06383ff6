"""Sleep in the life of a program: where it is not enabled, interrupted, forked, and ended while something sleeps."""

from __future__ import annotations

from binding_helpers import run_python, run_well, simulated_gpu

START = """
import os, signal, torch, frugal_alloc
MIB = 1 << 20
frugal_alloc.enable()

def tagged(name, size=8 * MIB):
    with frugal_alloc.tag(name):
        return torch.arange(size // 4, dtype=torch.int32, device="cuda")

def is_whole(tensor):
    return torch.equal(tensor.cpu(), torch.arange(tensor.numel(), dtype=torch.int32))
"""


def test_without_frugal_alloc_tags_do_nothing_and_sleep_is_refused():
    result = run_well(
        """
import torch, frugal_alloc
with frugal_alloc.tag("weights"):
    tensor = torch.ones(9)
report(tagged=frugal_alloc.retag(tensor, "weights"), asleep=frugal_alloc.asleep())
for call in (frugal_alloc.sleep, frugal_alloc.wake):
    try:
        call()
    except frugal_alloc.FrugalAllocError as error:
        report(**{call.__name__: str(error)})
""",
        FRUGAL_ALLOC=None,
    )
    assert (result["tagged"], result["asleep"]) == (0, {})
    assert result["sleep"] == result["wake"] == "frugal_alloc is not enabled: call frugal_alloc.enable() first"


def test_a_tag_may_be_around_the_call_that_enables():
    result = run_well(
        """
import torch, frugal_alloc
with frugal_alloc.tag("weights"):
    frugal_alloc.enable()
    tensor = torch.empty(8 << 20, dtype=torch.uint8, device="cuda")
report(slept=frugal_alloc.sleep().slept_bytes)
"""
    )
    assert result["slept"] == 8 << 20


# Interrupts the main thread once the driver has been called so often.
INTERRUPT = """
import ctypes, threading
calls = ctypes.CDLL(None).frugal_sim_calls
calls.argtypes, calls.restype = [ctypes.c_char_p], ctypes.c_uint64

def interrupted(call, kind):
    before = calls(kind)

    def interrupt():
        while calls(kind) == before:
            pass
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        call()
        while True:
            pass
    except KeyboardInterrupt:
        thread.join()
"""


@simulated_gpu
def test_an_interruption_is_raised_once_everything_sleeps_or_is_awake():
    result = run_well(
        START
        + INTERRUPT
        + """
tensors = [tagged("weights", 64 * MIB) for _ in range(4)]
interrupted(frugal_alloc.sleep, b"unmap")
report(asleep=frugal_alloc.asleep(), said=[])
for tensor in tensors:
    try:
        tensor.sum()
    except RuntimeError as error:
        reported["said"].append(str(error))
interrupted(frugal_alloc.wake, b"map")
report(woken=frugal_alloc.asleep(), whole=list(map(is_whole, tensors)))
"""
    )
    assert result["asleep"] == {"weights": 256 << 20}
    assert len(result["said"]) == 4 and all("this tensor sleeps" in text for text in result["said"])
    assert (result["woken"], result["whole"]) == ({}, [True] * 4)


def test_an_interruption_while_tensors_are_marked_leaves_none_out():
    result = run_well(
        START
        + """
tensors = [tagged("weights") for _ in range(9)]
library = frugal_alloc._native.load()
mark, marked = library.mark_asleep, []

def interrupted_mark(*arguments):
    marked.append(arguments)
    if len(marked) == 5:
        signal.raise_signal(signal.SIGINT)
    return mark(*arguments)

library.mark_asleep = interrupted_mark
try:
    frugal_alloc.sleep()
except KeyboardInterrupt:
    report(interrupted=True)
said = 0
for tensor in tensors:
    try:
        tensor.sum()
    except RuntimeError:
        said += 1
report(said=said)
"""
    )
    assert result["interrupted"] and result["said"] == 9


def test_a_gradient_that_python_has_never_seen_is_marked_too():
    result = run_well(
        START
        + """
model = torch.nn.Linear(1024, 2048, device="cuda")
with frugal_alloc.tag("gradients"):
    model(torch.ones(2, 1024, device="cuda")).sum().backward()
frugal_alloc.sleep("gradients")
try:
    model.weight.grad.norm()
except RuntimeError as error:
    report(said=str(error))
""",
        # What computes values sees every tensor that PyTorch makes.
        FRUGAL_SIM_VALUES=None,
    )
    assert "this tensor sleeps (tag 'gradients'" in result["said"]


def test_program_ends_well_while_something_sleeps():
    for host in ("pinned", "pageable"):
        code = START + f"tensor = tagged('weights'); frugal_alloc.sleep(host={host!r}); report(done=True)"
        result = run_python(code, is_forked=False)
        assert (result["done"], result["status"], result["stderr"]) == (True, 0, "")


def test_a_child_by_fork_leaves_what_sleeps_to_its_parent():
    result = run_well(
        START
        + """
tensor = tagged("weights")
frugal_alloc.sleep()
child = os.fork()
if child == 0:
    asleep = frugal_alloc.asleep()
    try:
        frugal_alloc.wake()
    except frugal_alloc.FrugalAllocError:
        pass
    del tensor
    os._exit(len(asleep))
report(child=os.waitpid(child, 0)[1])
frugal_alloc.wake()
report(whole=is_whole(tensor))
"""
    )
    assert (result["child"], result["whole"]) == (0, True)
