"""Repositories found on the machine: Abseil's source, an installed torch, CUDA's headers."""

def _workspace_root(ctx):
    return str(ctx.path(Label("//:WORKSPACE")).dirname)

def _python(ctx):
    """The interpreter whose torch we build for: $FRUGAL_PYTHON, the checkout's .venv, else python3."""
    env = ctx.os.environ.get("FRUGAL_PYTHON")
    if env:
        return env
    venv = _workspace_root(ctx) + "/.venv/bin/python"
    if ctx.path(venv).exists:
        return venv
    return str(ctx.which("python3"))

def _ask_python(ctx, code, what):
    # -E: pip isolates builds by way of PYTHONPATH, which -E ignores, so that the
    # torch found is the installing environment's own.
    result = ctx.execute([_python(ctx), "-E", "-c", code])
    if result.return_code:
        fail("%s has no %s; run tools/setup\n%s" % (_python(ctx), what, result.stderr))
    return result.stdout.strip()

def _abseil_impl(ctx):
    root = ctx.os.environ.get("FRUGAL_ABSEIL") or _workspace_root(ctx) + "/.deps/abseil"
    if not ctx.path(root + "/absl").exists:
        fail("Abseil's source is not at %s: run tools/abseil.py" % root)
    for entry in ["BUILD.bazel", "LICENSE", "AUTHORS"]:
        ctx.symlink(root + "/" + entry, entry)
    for entry in ctx.path(root + "/absl").readdir():
        if entry.basename != "BUILD.bazel":
            ctx.symlink(entry, "absl/" + entry.basename)

    # Bazel 4's own @platforms knows no WebAssembly.
    build = ctx.read(root + "/absl/BUILD.bazel")
    ctx.file("absl/BUILD.bazel", build.replace('        ":platforms_wasm32",\n        ":platforms_wasm64",\n', ""))

abseil = repository_rule(
    implementation = _abseil_impl,
    environ = ["FRUGAL_ABSEIL"],
    local = True,
)

_TORCH_BUILD = """
package(default_visibility = [
    "@//bench:__subpackages__",
    "@//bindings:__subpackages__",
    "@//tests:__subpackages__",
])

cc_library(
    name = "headers",
    hdrs = glob(["include/c10/**/*.h", "include/torch/headeronly/**/*.h"]),
    defines = ["USE_C10D_NCCL=0"],
    includes = ["include"],
)

# Links libc10 and libc10_cuda without an rpath: a Python process has loaded both
# by the time it loads ours, and the dynamic linker matches them by soname.
# What cross-compiled ones are linked with defines nothing (tools/build_libraries.py), hence is never "needed".
cc_library(
    name = "c10_cuda",
    linkopts = [
        "-L{lib}",
        "-Wl,--push-state,--no-as-needed",
        "-lc10",
        "-lc10_cuda",
        "-Wl,--pop-state,--allow-shlib-undefined",
    ],
    deps = [":headers"],
)

# For C++ programs, which start without Python.
cc_library(
    name = "rpath",
    linkopts = ["-Wl,-rpath,{lib}"],
)

# All of LibTorch. Its CUDA part registers itself when it is loaded, so it is linked though a program names nothing in
# it.
cc_library(
    name = "libtorch",
    hdrs = glob(["include/**/*.h"]),
    includes = ["include", "include/torch/csrc/api/include"],
    linkopts = [
        "-Wl,--no-as-needed",
        "-ltorch",
        "-ltorch_cpu",
        "-ltorch_cuda",
    ],
    deps = [":c10_cuda", ":rpath"],
)
"""

_TORCH_VERSION = """
TORCH = "{version}"
TORCH_TAG = "torch{major}{minor}"
TORCH_CUDA = "{cuda}"
TORCH_LIB = "{lib}"
"""

_TORCH_QUERY = """
import importlib.util, runpy
folder = importlib.util.find_spec("torch").submodule_search_locations[0]
version = runpy.run_path(folder + "/version.py")
print(folder, version["__version__"], version["cuda"])
"""

def _torch_sdk(ctx, folder):
    """The folder, version and CUDA of a torch of which there are headers and libraries alone."""
    found = {}
    for line in ctx.read(folder + "/version.py").split("\n"):
        name, _, value = line.partition("=")
        found[name.split(":")[0].strip()] = value.strip().strip("'")
    return folder, found["__version__"], found["cuda"]

def _torch_impl(ctx):
    sdk = ctx.os.environ.get("FRUGAL_TORCH_SDK")
    folder, version, cuda = _torch_sdk(ctx, sdk) if sdk else _ask_python(ctx, _TORCH_QUERY, "torch").split(" ")
    major, minor = version.split(".")[:2]
    lib = ctx.os.environ.get("FRUGAL_TORCH_LIBRARIES", folder + "/lib")
    ctx.symlink(folder + "/include", "include")
    ctx.file("BUILD", _TORCH_BUILD.format(lib = lib))
    ctx.file("version.bzl", _TORCH_VERSION.format(
        version = version,
        major = major,
        minor = minor,
        cuda = cuda,
        lib = lib,
    ))

# version.bzl has TORCH_TAG ("torch211"), which names every library built against
# torch's C++ classes, so that those of several torch minors lie side by side.
# $FRUGAL_TORCH_SDK, a folder of tools/torch_sdk.py, goes before a torch that is installed: the wheel's libraries are
# built in one invocation for each minor. One build with a repository for each would need every target that depends on
# torch once for each minor, or transitions, which compile also what knows no torch anew for each.
# $FRUGAL_TORCH_LIBRARIES is a folder with the libc10 and libc10_cuda to link with, if not those of that torch.
torch = repository_rule(
    implementation = _torch_impl,
    environ = ["FRUGAL_PYTHON", "FRUGAL_TORCH_LIBRARIES", "FRUGAL_TORCH_SDK", "PATH"],
    local = True,
)

_CUDA_BUILD = """
package(default_visibility = [
    "@//bench:__subpackages__",
    "@//bindings:__subpackages__",
    "@//cuda:__subpackages__",
    "@//simulated_gpu:__subpackages__",
    "@//tests:__subpackages__",
])

cc_library(
    name = "headers",
    hdrs = glob(["include/*.h", "include/crt/*.h", "include/**/*.hpp"], exclude = ["include/cccl/**"]),
    includes = ["include"],
)
"""

_CUDA_QUERY = """
import importlib.util, pathlib
folders = [pathlib.Path(f) / "cu13" for f in importlib.util.find_spec("nvidia").submodule_search_locations]
print([f for f in folders if (f / "include/cuda_runtime_api.h").exists()][0])
"""

def _cuda_headers_impl(ctx):
    root = ctx.os.environ.get("CUDA_HOME", "/usr/local/cuda")
    if not ctx.path(root + "/include/cuda_runtime_api.h").exists:
        # torch's own dependency nvidia-cuda-runtime has them.
        root = _ask_python(ctx, _CUDA_QUERY, "CUDA headers")
    ctx.symlink(root + "/include", "include")
    ctx.file("BUILD", _CUDA_BUILD)

cuda_headers = repository_rule(
    implementation = _cuda_headers_impl,
    environ = ["CUDA_HOME", "FRUGAL_PYTHON", "PATH"],
    local = True,
)
