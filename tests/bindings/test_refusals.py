"""Where frugal_alloc cannot work: one clear line, and PyTorch goes on untouched. And where it can, in spite of all."""

import os
import pickle
import re
import shutil
import stat
import struct
import traceback
from pathlib import Path

import frugal_alloc
import pytest
import torch
from binding_helpers import run_python, run_well, simulated_gpu
from frugal_alloc._common import installation

PACKAGE = Path(frugal_alloc.__file__).parent

TRY = """
import frugal_alloc
try:
    frugal_alloc.enable()
except frugal_alloc.FrugalAllocError as error:
    report(error=str(error))
report(enabled=frugal_alloc.is_enabled())
"""
ON_CPU = TRY + "import torch; report(sum=float(torch.ones(3).sum()))\n"


def check_refused(result: dict, *words: str) -> None:
    assert result["status"] == 0, result["stderr"]
    assert not result["enabled"]
    assert "\n" not in result["error"]
    for word in words:
        assert word in result["error"], result["error"]


@pytest.fixture
def copied_package(tmp_path):
    """A copy of the package, to be changed, and the search path that finds it."""
    copy = tmp_path / "frugal_alloc"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    # The package may be where nobody writes.
    for path in (copy, *copy.rglob("*")):
        path.chmod(path.stat().st_mode | stat.S_IWUSR)
    return tmp_path / "frugal_alloc", os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", "")))


def fake_torch(folder: Path, version: str, cuda: str | None) -> str:
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").write_text("raise ImportError('libc10.so is damaged')\n")
    (folder / "torch" / "version.py").write_text(f"__version__ = '{version}'\ncuda: str = {cuda!r}\n")
    return os.pathsep.join((str(folder), os.environ.get("PYTHONPATH", "")))


def test_allocator_that_a_program_puts_in_our_place_stays_there():
    result = run_python(
        """
import frugal_alloc, torch
frugal_alloc.enable()
with open("/proc/self/maps") as maps:
    libc = next(line.split()[-1] for line in maps if "/libc.so" in line)
torch.cuda.memory.change_current_allocator(torch.cuda.memory.CUDAPluggableAllocator(libc, "malloc", "free"))
"""
        + TRY
    )
    check_refused(result, "pluggable", "do not call change_current_allocator")


def test_import_alone_imports_neither_torch_nor_anything_else():
    result = run_python(
        """
import sys
before = set(sys.modules)
import frugal_alloc
added = {name.split(".")[0] for name in set(sys.modules) - before}
report(foreign=sorted(added - sys.stdlib_module_names - {"frugal_alloc"}), enabled=frugal_alloc.is_enabled(),
       disabled=frugal_alloc.disable(), torch="torch" in sys.modules)
""",
        is_forked=False,
    )
    assert result["status"] == 0, result["stderr"]
    assert (result["foreign"], result["enabled"], result["torch"]) == ([], False, False)


def test_figures_before_enabling_are_refused():
    result = run_python(
        """
import frugal_alloc
try:
    frugal_alloc.memory_stats()
except frugal_alloc.FrugalAllocError as error:
    report(error=str(error))
"""
    )
    assert "frugal_alloc.enable()" in result["error"]


def test_enabling_makes_no_context():
    result = run_python(
        """
import ctypes, frugal_alloc, torch
frugal_alloc.enable()
report(initialised=torch.cuda.is_initialized())

def has_context():
    driver, flags, active = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint(), ctypes.c_int()
    assert driver.cuInit(0) == 0
    assert driver.cuDevicePrimaryCtxGetState(0, ctypes.byref(flags), ctypes.byref(active)) == 0
    return bool(active.value)

report(enabled=has_context())
tensor = torch.empty(1, device="cuda")
report(used=has_context())
"""
    )
    assert (result["initialised"], result["enabled"], result["used"]) == (False, False, True)


WITHOUT_TORCH = """
import importlib.util as u, importlib.machinery
real = u.find_spec
u.find_spec = lambda name, package=None: None if name == 'torch' else real(name, package)
"""
OTHER_ARCHITECTURE = "import os; real = os.uname(); os.uname = lambda: os.uname_result([*real[:4], 'riscv64'])\n"
FREE_THREADED = "import sys; sys.version = sys.version.replace(' (', ' free-threading build (', 1)\n"


@pytest.mark.parametrize(
    ("pretend", "words"),
    [
        (WITHOUT_TORCH, ["PyTorch is not installed", "pip install torch"]),
        ("import sys; sys.platform = 'win32'\n", ["Linux", "win32"]),
        ("import sys; sys.platform = 'darwin'\n", ["Linux", "darwin"]),
        (OTHER_ARCHITECTURE, ["x86_64", "riscv64", "PyTorch keeps its own allocator"]),
        ("import os; os.confstr = lambda name: None\n", ["glibc", "musl", "use a system with"]),
        ("import sys; sys.version_info = (3, 9, 18)\n", ["3.10 or newer", "3.9.18", "use a newer Python"]),
        (FREE_THREADED, ["free-threaded", "ordinary build"]),
    ],
    ids=["no torch", "Windows", "macOS", "architecture", "C library", "older Python", "free-threaded Python"],
)
def test_surroundings_that_will_not_do_are_named(pretend, words):
    check_refused(run_python(pretend + TRY), *words)


@pytest.mark.parametrize(
    ("version", "cuda", "words"),
    [
        ("2.11.0+cpu", None, ["2.11.0+cpu", "without CUDA"]),
        ("2.11.0+rocm6.4", None, ["2.11.0+rocm6.4", "ROCm"]),
        ("2.99.0", "13.0", ["2.99.0", ".".join(torch.__version__.split(".")[:2]), "install frugal_alloc again"]),
        (torch.__version__, "13.0", ["import torch fails", "libc10.so is damaged"]),
    ],
    ids=["without CUDA", "for ROCm", "minor without a library", "that cannot be imported"],
)
def test_torch_that_will_not_do_is_named(tmp_path, version, cuda, words):
    path = fake_torch(tmp_path, version, cuda)
    if "rocm" in version:
        with open(tmp_path / "torch" / "version.py", "a") as file:
            file.write("hip: str = '6.4.43482'\n")
    check_refused(run_python(TRY, PYTHONPATH=path), *words)


def elf_hash(name: bytes) -> bytes:
    value = 0
    for byte in name:
        value = (value << 4) + byte
        value = (value ^ (value >> 24 & 0xF0)) & 0x0FFFFFFF
    return struct.pack("<I", value)


OURS = "frugal_alloc_torch{}{}.so".format(*torch.__version__.split(".")[:2])


def make_for_a_newer_system(library: Path) -> None:
    data = library.read_bytes()
    needed = max(re.findall(rb"GLIBC_2\.\d\d\0", data))[:-1]
    newer = needed[:-2] + b"99"
    library.write_bytes(data.replace(needed, newer).replace(elf_hash(needed), elf_hash(newer)))


def replace_by_another_minors(library: Path) -> None:
    others = sorted(set(library.parent.glob("frugal_alloc_torch*.so")) - {library})
    if not others:
        pytest.skip("there is no library for another minor to mistake it for")
    shutil.copyfile(others[-1], library)


LIBRARIES = {
    "for a newer system": (make_for_a_newer_system, ["GLIBC_2.99", "older than the one that", "from its source"]),
    "missing": (Path.unlink, [torch.__version__, "install frugal_alloc again", "knows this PyTorch"]),
    "of another minor": (replace_by_another_minors, [OURS, "install frugal_alloc again"]),
    "damaged": (lambda library: library.write_bytes(b"not a library"), ["does not load", "install frugal_alloc again"]),
}


@pytest.mark.parametrize(("change", "words"), LIBRARIES.values(), ids=LIBRARIES)
def test_library_that_will_not_do_is_named_and_torch_goes_on(copied_package, change, words):
    package, path = copied_package
    change(package / "_lib" / OURS)
    result = run_python(ON_CPU, PYTHONPATH=path)
    check_refused(result, *words)
    assert result["sum"] == 3


def test_no_driver_is_named():
    if os.environ.get("FRUGAL_TEST_GPU"):
        pytest.skip("this machine has a driver")
    # The simulated GPU's runtime needs its driver, so neither is there.
    result = run_python(ON_CPU, LD_PRELOAD=None, LD_LIBRARY_PATH=None, FRUGAL_SIM_ORDER=None, FRUGAL_SIM_LATE=None)
    check_refused(result, "no NVIDIA driver", "frugal-alloc simulate")
    assert result["sum"] == 3


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("CUDA_VISIBLE_DEVICES", "", ["CUDA_VISIBLE_DEVICES", "hides every GPU"]),
        ("CUDA_VISIBLE_DEVICES", "-1", ["CUDA_VISIBLE_DEVICES", "hides every GPU"]),
        ("PYTORCH_ALLOC_CONF", "backend:cudaMallocAsync", ["cudaMallocAsync", "PYTORCH_ALLOC_CONF"]),
    ],
)
def test_environment_that_will_not_do_is_named(variable, value, words):
    check_refused(run_python(ON_CPU, **{variable: value}), *words)


def test_refused_once_does_not_mean_refused_for_ever():
    result = run_python(
        """
import os
os.environ["CUDA_VISIBLE_DEVICES"] = ""
"""
        + TRY
        + """
del os.environ["CUDA_VISIBLE_DEVICES"]
frugal_alloc.enable()
import torch
report(now=frugal_alloc._native.load().owns(torch.empty(100, device="cuda").data_ptr()))
"""
    )
    assert "hides every GPU" in result["error"]
    assert result["now"]


# --- What does not stand in the way.


ENABLING = """
import ctypes, torch, frugal_alloc
native = torch.empty(1 << 20, device="cuda")
del native
simulation = ctypes.CDLL(None)

def is_ours(tensor):
    return frugal_alloc._native.load().owns(tensor.data_ptr())
"""


def test_second_copy_of_the_library_is_refused_in_one_line_and_the_first_goes_on(tmp_path):
    copy = tmp_path / "copy.so"
    copy.write_bytes(installation.find_library("alloc", installation.find_torch()).read_bytes())
    result = run_well(
        ENABLING
        + f"""
frugal_alloc.enable()
second = ctypes.CDLL({str(copy)!r})
second.frugal_last_error.restype = ctypes.c_char_p
report(answer=second.frugal_enable(), said=second.frugal_last_error().decode())
report(ours=is_ours(torch.empty(1 << 20, device="cuda")), enabled=frugal_alloc.is_enabled())
"""
    )
    assert result["answer"] == -1
    assert result["said"].startswith("another copy of frugal_alloc's library is at work") and "\n" not in result["said"]
    assert (result["ours"], result["enabled"]) == (True, True)


@simulated_gpu
@pytest.mark.parametrize(("plan", "told"), [("free@1=unknown", False), ("free@1+=unknown", True)])
def test_enabling_holds_where_idle_memory_cannot_be_given_back(plan, told):
    result = run_well(
        ENABLING
        + f"""
assert simulation.frugal_sim_set_faults({plan.encode()!r}) == 0
for _ in range(2):
    frugal_alloc.enable()
simulation.frugal_sim_set_faults(b"")
report(enabled=frugal_alloc.is_enabled(), ours=is_ours(torch.empty(1 << 20, device="cuda")))
"""
    )
    assert (result["enabled"], result["ours"]) == (True, True)
    assert ("idle memory could not be given back" in result["stderr"]) == told


def test_memory_from_before_caching_was_turned_on_goes_back_the_way_it_came():
    result = run_well(
        ENABLING
        + """
torch.cuda.memory.caching_allocator_enable(False)
frugal_alloc.enable()
uncached = torch.empty(1 << 20, device="cuda")
torch.cuda.memory.caching_allocator_enable(True)
pool = torch.cuda.MemPool()
with torch.cuda.use_mem_pool(pool):
    pooled = torch.empty(1 << 20, device="cuda")
torch.cuda.memory.caching_allocator_enable(False)
late = torch.empty(1 << 20, device="cuda")
before = torch.cuda.mem_get_info()[0]
del uncached, late
report(given_back=torch.cuda.mem_get_info()[0] - before)
held = torch.cuda.memory_allocated()
del pooled
report(freed=held - torch.cuda.memory_allocated())
torch.cuda.memory.caching_allocator_enable(True)
report(ours=is_ours(torch.empty(1 << 20, device="cuda")))
"""
    )
    assert result["given_back"] >= 2 * (4 << 20)
    assert result["freed"] == 4 << 20
    assert result["ours"]
    assert "could not free" not in result["stderr"]


@simulated_gpu
def test_sanitizer_of_pytorch_finds_no_race_in_a_program_that_orders_its_work_and_one_in_one_that_does_not():
    for waits in (True, False):
        result = run_well(
            ENABLING
            + f"""
import torch.cuda._sanitizer as sanitizer
sanitizer.enable_cuda_sanitizer()
frugal_alloc.enable()
side = torch.cuda.Stream()
try:
    for _ in range(4):
        made = torch.ones(1 << 20, device="cuda")
        if {waits}:
            side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            read = made + 1
        made.record_stream(side)
        del made, read
    report(race=False)
except sanitizer.CUDASanitizerErrors:
    report(race=True)
""",
            FRUGAL_SIM_ORDER="0",
            FRUGAL_SIM_LATE="0",
        )
        assert result["race"] == (not waits)


@pytest.mark.parametrize("name", ["FrugalAllocError", "LeakError"])
def test_a_traceback_names_an_error_as_programs_do(name: str) -> None:
    """And it survives the way from one process to another."""
    error = getattr(frugal_alloc, name)("what to do")
    assert traceback.format_exception_only(error) == [f"frugal_alloc.{name}: what to do\n"]
    assert type(pickle.loads(pickle.dumps(error))) is type(error)
