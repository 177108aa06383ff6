"""The kernels compile for every GPU that the compiler in this torch's wheels knows."""

from __future__ import annotations

import pytest
from frugal_alloc._gpu_check import nvrtc
from frugal_alloc._gpu_check.kernels import SOURCES

NEWER_THAN_ANY = (99, 0)


@pytest.fixture(scope="module")
def compiler() -> nvrtc.Compiler:
    try:
        return nvrtc.Compiler()
    except nvrtc.NvrtcError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", sorted(path.stem for path in SOURCES.glob("*.cu")))
@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (8, 9), (9, 0), (12, 0)])
def test_kernels_compile_to_the_machines_code(compiler: nvrtc.Compiler, name: str, capability: tuple[int, int]) -> None:
    code = compiler.compile((SOURCES / f"{name}.cu").read_text(), name, capability)
    assert code.startswith(b"\x7fELF")


def test_gpu_that_is_newer_than_the_compiler_gets_ptx(compiler: nvrtc.Compiler) -> None:
    code = compiler.compile((SOURCES / "timing.cu").read_text(), "timing", NEWER_THAN_ANY)
    assert b".entry spin" in code


def test_what_does_not_compile_is_named(compiler: nvrtc.Compiler) -> None:
    with pytest.raises(nvrtc.NvrtcError, match=r"wrong\.cu does not compile for sm_90: .*undefined"):
        compiler.compile("__global__ void f() { undefined(); }", "wrong.cu", (9, 0))


def test_missing_compiler_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "_PLACES", ())
    monkeypatch.setattr(nvrtc, "_SYSTEM", ())
    with pytest.raises(nvrtc.NvrtcError, match="nvidia-cuda-nvrtc"):
        nvrtc.Compiler()
