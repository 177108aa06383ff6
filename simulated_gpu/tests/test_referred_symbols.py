"""tools/referred_symbols: what programs refer to, in a wheel and in sources, and that the stand-ins have it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from simulated_gpu import launcher

TOOL = Path(__file__).resolve().parents[2] / "tools" / "referred_symbols"
STAND_INS = launcher.libraries()
TORCH = Path(importlib.util.find_spec("torch").origin).parent / "lib"
HEADER = """
// cuComment() is none
#define cuMemAlloc cuMemAlloc_v2
CUresult CUDAAPI cuMemAlloc(CUdeviceptr* pointer, size_t bytes);
CUresult CUDAAPI
cuMemCreate(CUmemGenericAllocationHandle* handle);
static __inline__ int cuInline(int number) { return number; }
""" + "".join(f"CUresult cuOther{number}(void);\ncublasStatus_t cublasOne{number}(void);\n" for number in range(9))


def run(*arguments: str | Path) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, TOOL, *arguments], capture_output=True, text=True)


@pytest.fixture
def headers(tmp_path: Path) -> Path:
    (tmp_path / "headers").mkdir()
    (tmp_path / "headers" / "cuda.h").write_text(HEADER)
    return tmp_path / "headers"


def test_wheel_links_and_looks_up(headers: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "some-1.0.whl", "w") as wheel:
        wheel.write(TORCH / "libc10_cuda.so", "some/libc10_cuda.so")
        wheel.writestr("some/kernel.cu", "cublasOne1 (); cuInline(1); cuComment();")
        wheel.writestr("some/text.txt", "cuOther1();")
    found = run("--headers", headers, tmp_path / "some-1.0.whl").stdout.splitlines()
    assert found == sorted(found)
    assert {"libcudart cudaMalloc", "libcuda cuMemCreate", "libcublas cublasOne1"} <= set(found)
    assert not [line for line in found if line.split()[1] in ("cuInline", "cuComment", "cuOther1")]


def test_name_stands_for_its_variants_and_a_table_says_nothing(headers: Path, tmp_path: Path) -> None:
    (tmp_path / "call.py").write_text("driver.cuMemAlloc(pointer)")
    (tmp_path / "look_up.c").write_text('dlsym(library, "cuOther1"); HANDLE(get, cuOther2)')
    (tmp_path / "table.c").write_text("".join(f"cuOther{number}();" for number in range(9)))
    found = run("--headers", headers, tmp_path).stdout.split()[1::2]
    assert found == ["cuMemAlloc", "cuMemAlloc_v2", "cuOther1", "cuOther2"]


@pytest.mark.parametrize("name", ["libtorch_cuda.so", "libtorch_cuda_linalg.so", "libtorch_python.so"])
def test_stand_ins_have_what_torch_links(name: str, headers: Path) -> None:
    linked = {tuple(line.split()) for line in run("--headers", headers, TORCH / name).stdout.splitlines()}
    assert len(linked) > 20
    for library in {library for library, _ in linked}:
        stand_in = max(STAND_INS.glob(f"{library}.so.*"))
        defined = subprocess.run(["nm", "--dynamic", "--defined-only", stand_in], capture_output=True, text=True)
        there = {line.split()[-1].partition("@")[0] for line in defined.stdout.splitlines()}
        assert {function for of, function in linked if of == library} <= there


def test_what_cannot_be_read_is_said_in_one_line(headers: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.whl").write_text("no wheel")
    for arguments in (("--headers", headers, "nothing"), ("--headers", tmp_path / "none", tmp_path)):
        done = run(*arguments)
        assert done.returncode == 1 and done.stderr.count("\n") == 1, done
    done = run("--headers", headers, tmp_path / "broken.whl")
    assert done.stderr == "referred_symbols: File is not a zip file\n"
