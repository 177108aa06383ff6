"""Builds the package's libraries for the torch beside it, and packs them: a PEP 517 and PEP 660 backend.

Bazel builds //:package_libraries where there is a Bazel that reads our WORKSPACE; elsewhere CMakeLists.txt builds the
adapter and the replay, without the simulated GPU. A wheel holds the Python sources, the C++ header and the libraries
just built, hence serves one torch minor version; an editable installation puts its libraries into the checkout, where
those of several torch minors lie side by side.

Run as a program it brings the libraries in the checkout up to date for the torch of the Python that runs it.
"""

import base64
import filecmp
import hashlib
import io
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "bindings" / "frugal_alloc"
HEADERS = ROOT / "bindings" / "include"  # in a wheel, include/ in the package
LIBRARIES = "_lib"  # in the package
SIMULATED_GPU = "simulated_gpu"  # in _lib
TARGET = "//:package_libraries"
BAZEL = shlex.split(os.environ.get("BAZEL", "bazel"))
# ctypes loads the libraries, so that one wheel serves every Python 3.
TAG = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")


def _torch() -> tuple[pathlib.Path, str]:
    """The folder of the installed torch and its tag, such as torch211."""
    # -E: pip isolates builds by way of PYTHONPATH; the torch meant is the installing environment's own.
    code = (
        "import importlib.util, runpy\n"
        "folder = importlib.util.find_spec('torch').submodule_search_locations[0]\n"
        "print(folder, runpy.run_path(folder + '/version.py')['__version__'], sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-E", "-c", code], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"frugal_alloc is built for the torch beside it; {sys.executable} has none: pip install torch first")
    folder, version = done.stdout.splitlines()
    return pathlib.Path(folder), "torch" + "".join(version.split(".")[:2])


def _has_bazel() -> bool:
    """Whether there is a Bazel that reads a WORKSPACE file; Debian's 4.2.3 calls itself no_version."""
    if shutil.which(BAZEL[0]) is None:
        return False
    done = subprocess.run([*BAZEL, "--version"], cwd=ROOT, capture_output=True, text=True)
    return done.returncode == 0 and done.stdout.removeprefix("bazel ").startswith(("no_version", "4."))


def _bazel(command: str, *arguments: str) -> str:
    """Bazel's standard output; what it tells people goes on to ours."""
    options = [] if sys.stderr.isatty() else ["--noshow_progress", "--ui_event_filters=-info"]
    # For the checkout's own .venv Bazel finds the way itself, and keeps what it knows from other builds.
    if pathlib.Path(sys.prefix) != ROOT / ".venv":
        options.append(f"--repo_env=FRUGAL_PYTHON={sys.executable}")
    done = subprocess.run([*BAZEL, command, *options, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"bazel {command} failed; its messages are above")
    return done.stdout


def _built_by_bazel() -> dict[str, pathlib.Path]:
    _bazel("build", "--show_result=0", TARGET)
    expression = "'\\n'.join([file.path for file in target.files.to_list()])"
    listed = _bazel("cquery", TARGET, "--output=starlark", f"--starlark:expr={expression}")
    execution_root = pathlib.Path(_bazel("info", "execution_root").strip())
    built = {}
    for path in map(pathlib.PurePosixPath, listed.split()):
        folder = f"{SIMULATED_GPU}/" if "/cuda/simulated/" in f"/{path}" else ""
        built[folder + path.name] = execution_root / path
    return built


def _built_by_cmake() -> dict[str, pathlib.Path]:
    torch, tag = _torch()
    abseil = pathlib.Path(os.environ.get("FRUGAL_ABSEIL", ROOT / ".deps" / "abseil"))
    if not (abseil / "absl").is_dir():
        sys.exit(f"Abseil's source is not at {abseil}: run tools/setup, or set FRUGAL_ABSEIL to its folder")
    toolkit = pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    cuda = toolkit if (toolkit / "include" / "cuda_runtime_api.h").exists() else torch.parent / "nvidia" / "cu13"
    folder = ROOT / "build" / tag
    values = {"CMAKE_BUILD_TYPE": "Release", "TORCH": torch, "TORCH_TAG": tag, "CUDA": cuda, "ABSEIL": abseil}
    configure = ["cmake", "-S", ROOT, "-B", folder, *(f"-D{name}={value}" for name, value in values.items())]
    subprocess.run(configure, check=True)
    subprocess.run(["cmake", "--build", folder, "--parallel", str(os.cpu_count())], check=True)
    return {path.name: path for path in folder.glob(f"frugal_*_{tag}.so")}


def _build() -> dict[str, pathlib.Path]:
    """The libraries just built, by their path below _lib/."""
    _torch()  # a clear word before minutes of building
    return _built_by_bazel() if _has_bazel() else _built_by_cmake()


def _place(built: dict[str, pathlib.Path]) -> None:
    """Puts the libraries into the checkout, each in one step, since a running program may have it loaded."""
    folder = PACKAGE / LIBRARIES
    for name, source in built.items():
        target = folder / name
        if target.exists() and filecmp.cmp(source, target, shallow=False):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as near:
            os.replace(shutil.copyfile(source, pathlib.Path(near) / target.name), target)
        print(f"built {target.relative_to(ROOT)}")
    for old in (folder / SIMULATED_GPU).glob("*.so*"):
        if f"{SIMULATED_GPU}/{old.name}" not in built:
            old.unlink()


def _project() -> dict:
    if sys.version_info >= (3, 11):
        import tomllib as toml
    else:
        import tomli as toml
    return toml.loads((ROOT / "pyproject.toml").read_text())["project"]


def _metadata(project: dict) -> str:
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        f"Requires-Python: {project['requires-python']}",
        *(f"Requires-Dist: {requirement}" for requirement in project["dependencies"]),
    ]
    for extra, requirements in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f"Requires-Dist: {requirement}; extra == '{extra}'" for requirement in requirements]
    return "\n".join(lines) + "\n"


def _dist_info(project: dict) -> dict[str, bytes]:
    folder = f"{project['name']}-{project['version']}.dist-info"
    scripts = "".join(f"{name} = {entry}\n" for name, entry in project["scripts"].items())
    wheel = f"Wheel-Version: 1.0\nGenerator: {project['name']}\nRoot-Is-Purelib: false\nTag: {TAG}\n"
    return {
        f"{folder}/METADATA": _metadata(project).encode(),
        f"{folder}/WHEEL": wheel.encode(),
        f"{folder}/entry_points.txt": f"[console_scripts]\n{scripts}".encode(),
    }


def _pack(directory: str, files: dict[str, bytes]) -> str:
    """Writes the wheel with these files and their record; returns its name."""
    project = _project()
    stem = f"{project['name']}-{project['version']}"
    files = {**files, **_dist_info(project)}
    record = io.StringIO()
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record.write(f"{path},sha256={digest},{len(data)}\n")
    record.write(f"{stem}.dist-info/RECORD,,\n")
    files[f"{stem}.dist-info/RECORD"] = record.getvalue().encode()
    name = f"{stem}-{TAG}.whl"
    with zipfile.ZipFile(pathlib.Path(directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path)  # dated 1980, so that equal contents make equal wheels
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o100644 << 16
            wheel.writestr(entry, data)
    return name


def _sources() -> dict[str, bytes]:
    """The package's Python files, and the headers for C++ programs."""
    sources = {
        f"{PACKAGE.name}/include/{path.relative_to(HEADERS)}": path.read_bytes()
        for path in sorted(HEADERS.rglob("*.h"))
    }
    for path in sorted(PACKAGE.rglob("*")):
        inside = path.relative_to(PACKAGE)
        if path.is_file() and inside.parts[0] != LIBRARIES and "__pycache__" not in inside.parts:
            sources[f"{PACKAGE.name}/{inside}"] = path.read_bytes()
    return sources


def get_requires_for_build_wheel(config_settings=None) -> list[str]:
    return [] if _has_bazel() or shutil.which("cmake") else ["cmake"]


get_requires_for_build_editable = get_requires_for_build_wheel


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None) -> str:
    for path, data in _dist_info(_project()).items():
        target = pathlib.Path(metadata_directory) / path
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(data)
    return target.parent.name


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None) -> str:
    libraries = {f"{PACKAGE.name}/{LIBRARIES}/{name}": path.read_bytes() for name, path in _build().items()}
    return _pack(wheel_directory, _sources() | libraries)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None) -> str:
    _place(_build())
    return _pack(wheel_directory, {f"{PACKAGE.name}.pth": f"{PACKAGE.parent}\n".encode()})


def build_sdist(sdist_directory, config_settings=None) -> str:
    project = _project()
    stem = f"{project['name']}-{project['version']}"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    with tarfile.open(pathlib.Path(sdist_directory) / f"{stem}.tar.gz", "w:gz") as archive:
        for name in filter(None, listed.split("\0")):
            archive.add(ROOT / name, f"{stem}/{name}")
        metadata = _metadata(project).encode()
        entry = tarfile.TarInfo(f"{stem}/PKG-INFO")
        entry.size = len(metadata)
        archive.addfile(entry, io.BytesIO(metadata))
    return f"{stem}.tar.gz"


if __name__ == "__main__":
    _place(_build())
