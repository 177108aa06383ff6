"""The stand-in for torch_memory_saver: programs that were written for the library run unmodified."""

from __future__ import annotations

import pytest
from binding_helpers import MIB, run_python, run_well

FOUND = "import sys, frugal_alloc\nfrugal_alloc.enable()\n"
START = (
    FOUND
    + """
import torch, torch_memory_saver as module
from torch_memory_saver import torch_memory_saver
MIB = 1 << 20

def used():
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    return total - free

def filled(value, size=64 * MIB):
    return torch.full((size,), value, dtype=torch.uint8, device="cuda")

def is_lost(tensor):
    try:
        tensor[:1].item()
    except RuntimeError:
        return True
"""
)


REFUSED = "(frugal_alloc.FrugalAllocError, ValueError, NotImplementedError)"


def run(code: str, **environment: str | None) -> dict:
    return run_well(START + code, **environment)


# --- Whom an import finds


@pytest.fixture
def installed(tmp_path):
    """A folder with a library of the name."""
    (tmp_path / "torch_memory_saver.py").write_text("torch_memory_saver = 'the library'\n")
    return str(tmp_path)


SAYS = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always", RuntimeWarning)
    {}
report(found=torch_memory_saver.__name__, warnings=[str(w.message) for w in caught if "pause" in str(w.message)])
"""
IMPORT_FIRST = "import torch_memory_saver, frugal_alloc; frugal_alloc.enable()"
IMPORT_LAST = "import frugal_alloc; frugal_alloc.enable(); frugal_alloc.enable(); import torch_memory_saver"


def test_it_is_found_under_the_librarys_name_once_frugal_alloc_is_enabled():
    result = run(
        """
import frugal_alloc.integrations.torch_memory_saver as ours
from torch_memory_saver.testing_utils import get_and_print_gpu_memory
report(same=module is ours, saver=torch_memory_saver is ours.torch_memory_saver, enabled=torch_memory_saver.enabled)
report(used=get_and_print_gpu_memory("now") == used())
"""
    )
    assert (result["same"], result["saver"], result["enabled"], result["used"]) == (True, True, True, True)
    missing = run_python("import torch, torch_memory_saver")
    assert "No module named 'torch_memory_saver'" in missing["stderr"]


@pytest.mark.parametrize("code", [IMPORT_FIRST, IMPORT_LAST])
def test_a_library_that_is_installed_is_found_and_its_user_told_once_what_it_does_not_do(installed, code):
    result = run_well(f"import sys; sys.path.append({installed!r})" + SAYS.format(code))
    assert result["found"] == "torch_memory_saver"
    (warning,) = result["warnings"]
    assert warning.startswith("torch_memory_saver's pause() frees nothing of frugal_alloc's memory; import it after")


def test_a_library_that_is_installed_yields_if_it_is_told_to(installed):
    code = f"import sys; sys.path.insert(0, {installed!r})" + SAYS.format(IMPORT_LAST)
    result = run_well(code, FRUGAL_TORCH_MEMORY_SAVER="1")
    assert (result["found"], result["warnings"]) == ("frugal_alloc.integrations.torch_memory_saver", [])


def test_children_have_it_before_they_have_imported_torch():
    result = run(
        """
import os, subprocess
before = dict(os.environ)
with module.configure_subprocess():
    code = "import torch_memory_saver as m, frugal_alloc; print(m.__name__, frugal_alloc.is_enabled())"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
report(told=told.stdout.split() or told.stderr, restored=before == dict(os.environ))
"""
    )
    assert result["told"] == ["frugal_alloc.integrations.torch_memory_saver", "True"]
    assert result["restored"]


# --- Regions


def test_regions_go_with_a_pause_by_their_tags_and_are_back_with_their_contents_at_the_same_address():
    result = run(
        """
outside = filled(1)
with torch_memory_saver.region(tag="weights", enable_cpu_backup=True):
    weights = filled(42)
with torch_memory_saver.region(tag="kv_cache"):
    cache = filled(2)
address, before, steps, given_back = weights.data_ptr(), used(), [], []
for call, tag in [("pause", "kv_cache"), ("pause", "weights"), ("resume", "weights"), ("resume", "kv_cache")]:
    getattr(torch_memory_saver, call)(tag)
    steps.append([is_lost(weights), is_lost(cache)])
    given_back.append(before - used())
for call in ("resume", "pause", "pause", "resume", "resume"):
    getattr(torch_memory_saver, call)()
torch_memory_saver.pause("nobody's")
cache.fill_(3)
report(steps=steps, given_back=given_back, same=weights.data_ptr() == address)
report(weights=bool((weights == 42).all()), cache=int(cache[0]), outside=int(outside[-1]))
"""
    )
    assert result["steps"] == [[None, True], [True, True], [None, True], [None, None]]
    assert 0.98 * 64 * MIB <= result["given_back"][0] <= result["given_back"][1] - 0.98 * 64 * MIB
    assert result["given_back"][3] == 0
    assert (result["same"], result["weights"], result["cache"], result["outside"]) == (True, True, 3, 1)


def test_what_has_no_backup_is_not_copied_though_its_tag_has_both_kinds():
    result = run(
        """
with torch_memory_saver.region(enable_cpu_backup=True):
    kept = filled(5)
    with torch_memory_saver.region():
        lost = filled(6)
    also_kept = filled(7)
slept = []
sleep = frugal_alloc.sleep
frugal_alloc.sleep = lambda *given, **named: slept.append(sleep(*given, **named))
torch_memory_saver.pause("default")
torch_memory_saver.resume("default")
report(copied=slept[0].copied_bytes, dropped=slept[0].dropped_bytes, kept=[int(kept[0]), int(also_kept[-1])])
lost.fill_(0)
"""
    )
    assert result["copied"] <= 2 * 64 * MIB * 1.001
    assert result["dropped"] >= 0.98 * 64 * MIB
    assert result["kept"] == [5, 7]


@pytest.mark.parametrize(("backend", "keeps"), [(None, True), ("pinned", True), ("mmap", False)])
def test_backups_lie_in_the_memory_that_was_asked_for(backend, keeps):
    result = run(
        f"""
with torch_memory_saver.region(enable_cpu_backup=True, cpu_backup_backend={backend!r}):
    tensor = filled(9)
hosts = []
sleep = frugal_alloc.sleep
frugal_alloc.sleep = lambda *given, host, **named: hosts.append(host) or sleep(*given, host=host, **named)
torch_memory_saver.pause()
torch_memory_saver.resume()
report(hosts=hosts, intact=bool((tensor == 9).all()))
"""
    )
    assert (result["hosts"], result["intact"]) == (["pinned" if keeps else "pageable"], True)


def test_a_captured_graph_replays_after_a_pause_and_its_own_pool_stays_awake():
    result = run(
        """
import warnings
with torch_memory_saver.region(tag="kv_cache"):
    cache = filled(1).float()
x, graph = torch.zeros(4, device="cuda"), torch.cuda.CUDAGraph()
torch.cuda.synchronize()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always", RuntimeWarning)
    with torch_memory_saver.cuda_graph(graph, tag="graph"):
        y = x + cache.mean()
torch_memory_saver.pause("kv_cache")
torch_memory_saver.pause("graph")
torch_memory_saver.resume()
cache.fill_(2)
x.fill_(100)
graph.replay()
report(y=y.tolist(), warnings=[str(w.message) for w in caught])
"""
    )
    assert result["y"] == [102.0] * 4
    assert any("leaves the private pools of CUDA graphs awake" in warning for warning in result["warnings"])


def test_with_mapped_pools_a_graphs_memory_pauses_and_the_graph_replays_after_it():
    result = run(
        """
x, graph = torch.zeros(4 * MIB, device="cuda"), torch.cuda.CUDAGraph()
torch.cuda.synchronize()
with torch_memory_saver.cuda_graph(graph, tag="graph"):
    y = x * 2 + 1
free = torch.cuda.mem_get_info()[0]
torch_memory_saver.pause("graph")
freed = torch.cuda.mem_get_info()[0] - free
try:
    graph.replay()
except RuntimeError as error:
    report(said=str(error))
torch_memory_saver.resume("graph")
x.fill_(100)
graph.replay()
report(y=y[:2].tolist(), freed=freed)
""",
        FRUGAL_ALLOC_CONF="pools:mapped",
    )
    assert "this CUDA graph may read sleeps" in result["said"]
    assert result["y"] == [201.0, 201.0] and result["freed"] >= 16 * MIB


def test_the_backup_of_a_paused_tensor_can_be_had():
    result = run(
        """
with torch_memory_saver.region(enable_cpu_backup=True):
    whole = torch.arange(3 * MIB, dtype=torch.float32, device="cuda")
    small = torch.arange(9, device="cuda").view(3, 3)
with torch_memory_saver.region():
    lost = filled(1)
expected = [tensor.cpu() for tensor in (whole, whole[5:99], small)]
none = torch_memory_saver.get_cpu_backup(whole)
torch_memory_saver.pause()
backups = [torch_memory_saver.get_cpu_backup(tensor) for tensor in (whole, whole[5:99], small)]
report(before=none, same=list(map(torch.equal, backups, expected)))
for tensor in (lost, whole[::2]):
    try:
        torch_memory_saver.get_cpu_backup(tensor)
    except frugal_alloc.FrugalAllocError as error:
        report(**{"dropped" if tensor is lost else "apart": str(error)})
torch_memory_saver.resume()
report(after=torch_memory_saver.get_cpu_backup(small, zero_copy=True), intact=torch.equal(whole.cpu(), expected[0]))
"""
    )
    assert (result["before"], result["same"], result["after"], result["intact"]) == (None, [True] * 3, None, True)
    assert "was not copied" in result["dropped"]
    assert "contiguous" in result["apart"]


# --- Without regions


def test_everything_can_be_paused_but_what_was_allocated_while_that_was_off():
    result = run(
        """
weights = filled(3)
with torch_memory_saver.region(tag="gradients"):
    gradients = filled(4)
before = used()
torch_memory_saver.pause()
paused = used()
with torch_memory_saver.disable():
    temporary = filled(5)
    assert int(temporary[-1]) == 5
    del temporary
report(given_back=before - paused, left=used() - paused)
with torch_memory_saver.disable():
    awake = filled(6)
torch_memory_saver.pause()
report(awake=int(awake[-1]))
torch_memory_saver.resume()
report(weights=bool((weights == 3).all()))
try:
    torch_memory_saver.pause("default")
except frugal_alloc.FrugalAllocError as error:
    report(refused=str(error))
""",
        TMS_INIT_ENABLE="1",
        TMS_INIT_ENABLE_CPU_BACKUP="1",
    )
    assert result["given_back"] >= 0.98 * 2 * 64 * MIB
    assert (result["left"], result["awake"], result["weights"]) == (0, 6, True)
    assert result["refused"].startswith("TMS_INIT_ENABLE=1: memory outside regions has no tag")


# --- What is not offered


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("torch_memory_saver.region(enable_disk_backup=True).__enter__()", "no backups on disk; use enable_cpu_backup"),
        ("torch_memory_saver.set_disk_backup_dir('/tmp')", "no backups on disk"),
        ("torch_memory_saver.region(cpu_backup_backend='mmap').__enter__()", "needs enable_cpu_backup=True"),
        ("torch_memory_saver.memory_margin_bytes", "can be set, and not be asked for"),
    ],
)
def test_what_is_not_offered_is_refused_in_one_line(code, says):
    result = run(f"try: {code}\nexcept {REFUSED} as error: report(said=str(error))")
    assert says in result["said"] and "\n" not in result["said"]


def test_a_region_needs_frugal_alloc():
    result = run_python(
        "from frugal_alloc.integrations.torch_memory_saver import torch_memory_saver as saver\n"
        "saver.region().__enter__()",
        is_forked=False,
    )
    assert result["stderr"].splitlines()[-1].endswith("needs frugal_alloc: call frugal_alloc.enable() first")


def test_a_margin_is_left_to_the_driver():
    result = run(
        """
torch_memory_saver.memory_margin_bytes = 1 << 30
report(said=frugal_alloc._native.load().setting("driver_reserve"))
"""
    )
    assert result["said"] in ("1GiB", str(1 << 30))
