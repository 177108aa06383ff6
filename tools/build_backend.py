"""Packs the package: a PEP 517 and PEP 660 backend. tools/build_libraries.py builds what is packed.

A wheel holds the Python sources, the C++ headers and the libraries: for the torch that is beside it, since that is what
`pip install .` is for; for every torch of tools/torch_versions.txt where there is no torch yet, or where it is asked
for with `--config-settings torch=all` (tools/wheel does); then also for another architecture than this machine's, with
`--config-settings architecture=aarch64`. An editable installation puts its libraries into the
checkout, where those of several torch minors lie side by side.

Run as a program it brings the libraries in the checkout up to date for the torch of the Python that runs it; with
--all, for every torch.
"""

from __future__ import annotations

import base64
import hashlib
import io
import pathlib
import re
import subprocess
import sys
import tarfile
import zipfile

import abseil
import build_libraries
import project_metadata
import torch_sdk
import wheel_tag
from build_libraries import LIBRARIES, PACKAGE, PACKAGES, ROOT

# What a build, with CMake or Bazel, needs of Abseil's source.
ABSEIL = ("absl", "AUTHORS", "BUILD.bazel", "CMake", "CMakeLists.txt", "LICENSE")
HEADERS = ROOT / "bindings" / "include"  # in a wheel, include/ in the package


def _architecture(settings: dict | None) -> str:
    return (settings or {}).get("architecture", build_libraries.machine())


def _libraries(settings: dict | None) -> build_libraries.Files:
    """The libraries that these settings ask for, just built."""
    wanted = (settings or {}).get("torch", "beside")
    if wanted not in ("beside", "all"):
        sys.exit(f"frugal_alloc: torch={wanted} is not a setting; torch=all and torch=beside are")
    architecture = _architecture(settings)
    if wanted == "beside" and architecture != build_libraries.machine():
        sys.exit(f"frugal_alloc: the torch beside this Python is not for {architecture}; add torch=all")
    try:
        build_libraries.check_machine(architecture)
        source = abseil.source(ROOT)
        torch = build_libraries.beside() if wanted == "beside" else None
        if torch is None and wanted == "beside":
            print(f"frugal_alloc: {sys.executable} has no torch yet, so building for all", file=sys.stderr)
        return build_libraries.build([torch] if torch else build_libraries.everyone(), source, architecture)
    except (abseil.AbseilError, build_libraries.BuildError, torch_sdk.SdkError) as error:
        sys.exit(f"frugal_alloc: {error}")


def _dist_info(project: project_metadata.Project, tag: str) -> dict[str, bytes]:
    wheel = f"Wheel-Version: 1.0\nGenerator: {project.name}\nRoot-Is-Purelib: false\nTag: {tag}\n"
    return {
        f"{project.dist_info}/METADATA": project.metadata().encode(),
        f"{project.dist_info}/WHEEL": wheel.encode(),
        f"{project.dist_info}/entry_points.txt": project.entry_points().encode(),
        **{f"{project.dist_info}/licenses/{path}": (ROOT / path).read_bytes() for path in project.license_files()},
    }


def _pack(directory: str, files: dict[str, bytes], tag: str) -> str:
    """Writes the wheel with these files and their record; returns its name."""
    project = project_metadata.read()
    files = {**files, **_dist_info(project, tag)}
    record = io.StringIO()
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record.write(f"{path},sha256={digest},{len(data)}\n")
    record.write(f"{project.dist_info}/RECORD,,\n")
    files[f"{project.dist_info}/RECORD"] = record.getvalue().encode()
    name = f"{project.stem}-{tag}.whl"
    with zipfile.ZipFile(pathlib.Path(directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path)  # dated 1980, so that equal contents make equal wheels
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o100644 << 16
            wheel.writestr(entry, data)
    return name


def _sources() -> dict[str, bytes]:
    """The packages' Python files, and the headers for C++ programs."""
    sources = {
        f"{PACKAGE.name}/include/{path.relative_to(HEADERS)}": path.read_bytes()
        for path in sorted(HEADERS.rglob("*.h"))
    }
    for package in PACKAGES:
        for path in sorted(package.rglob("*")):
            inside = path.relative_to(package)
            is_built = inside.parts[0] == LIBRARIES or "__pycache__" in inside.parts
            if path.is_file() and not is_built and path.suffix != ".md":
                sources[f"{package.name}/{inside}"] = path.read_bytes()
    return sources


def get_requires_for_build_wheel(config_settings=None) -> list[str]:
    # Before pip fetches what a build needs, and looks for a torch that there is not.
    try:
        build_libraries.check_machine()
    except build_libraries.BuildError as error:
        sys.exit(f"frugal_alloc: {error}")
    return build_libraries.missing_tools()


get_requires_for_build_editable = get_requires_for_build_wheel


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None) -> str:
    project = project_metadata.read()
    for path, data in _dist_info(project, wheel_tag.local_tag()).items():
        target = pathlib.Path(metadata_directory) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return project.dist_info


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None) -> str:
    files = _libraries(config_settings)
    shared = {name: data for name, data in files.items() if ".so" in name}
    tag = wheel_tag.tag(shared, _architecture(config_settings))
    return _pack(wheel_directory, _sources() | files, tag)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None) -> str:
    build_libraries.place(_libraries(config_settings))
    folders = "".join(f"{package.parent}\n" for package in PACKAGES)
    return _pack(wheel_directory, {f"{PACKAGE.name}.pth": folders.encode()}, wheel_tag.local_tag())


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """The entry as an sdist has it: nobody's. None for what no build compiles."""
    if re.search(r"_(test|benchmark)\.cc$", entry.name) and f"/{abseil.HERE}/" in entry.name:
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def build_sdist(sdist_directory, config_settings=None) -> str:
    project = project_metadata.read()
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    names = list(filter(None, listed.stdout.split("\0")))
    if "pyproject.toml" not in names:
        sys.exit(f"frugal_alloc: an sdist has the files that git lists, and {ROOT} is no git checkout; clone it")
    try:
        source = abseil.source(ROOT)
    except abseil.AbseilError as error:
        sys.exit(f"frugal_alloc: {error}")
    with tarfile.open(pathlib.Path(sdist_directory) / f"{project.stem}.tar.gz", "w:gz") as archive:
        for name in names:
            archive.add(ROOT / name, f"{project.stem}/{name}", filter=_anonymous)
        for name in ABSEIL:
            archive.add(source / name, f"{project.stem}/{abseil.HERE}/{name}", filter=_anonymous)
        metadata = project.metadata().encode()
        entry = tarfile.TarInfo(f"{project.stem}/PKG-INFO")
        entry.size = len(metadata)
        archive.addfile(entry, io.BytesIO(metadata))
    return f"{project.stem}.tar.gz"


if __name__ == "__main__":
    if sys.argv[1:] not in ([], ["--all"]):
        sys.exit(__doc__)
    build_libraries.place(_libraries({"torch": "all"} if sys.argv[1:] else None))
