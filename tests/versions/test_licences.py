"""What may be done with the project, and with what of others it packs, is said where people and tools look for it."""

from __future__ import annotations

import ast
import email
import fnmatch
import os
import re
import shlex
import subprocess
import sys
import tarfile
from pathlib import Path

import frugal_alloc
import pytest
import simulated_gpu
from frugal_alloc._common import installation

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import build_backend  # noqa: E402
import project_metadata  # noqa: E402

PACKAGES = [Path(package.__file__).parent for package in (frugal_alloc, simulated_gpu)]
LIBRARIES = sorted(path for package in PACKAGES for path in package.glob("_lib/*.so*"))
BAZEL = shlex.split(os.environ.get("BAZEL", "bazel"))
NOTICE = (ROOT / "NOTICE").read_text()
# What //:package_libraries depend on of others, by Bazel's name for it, and where NOTICE speaks of it.
NOTICED = {"com_google_absl": "Abseil", "torch": "PyTorch", "cuda": "CUDA"}
TERMS = ["LICENSE", "NOTICE", *(f"third_party/licenses/{name}.txt" for name in ("abseil", "cuda", "llvm", "pytorch"))]
# What a user has of them beside torch: they are asked for as extras, or the module is loaded by them alone.
NO_EXTRA = {"detectron2", "torchvision", "triton"}
MODULES = {"cuda": "cuda-bindings", "ignite": "pytorch-ignite", "prometheus_client": "prometheus-client"}


def section(name: str) -> str:
    """The lines of NOTICE that are indented below this name."""
    found = re.search(rf"^{name}\n((?:  .*\n)+)", NOTICE, re.MULTILINE)
    assert found, f"NOTICE does not speak of {name}"
    return found[1]


def noticed_libraries(name: str) -> set[Path]:
    """Those that NOTICE says to have something of it."""
    patterns = re.findall(r"_lib/([\w/*.]+?)[,.]?(?=\s)", section(name))
    return {path for path in LIBRARIES if any(fnmatch.fnmatch(path.name, pattern) for pattern in patterns)}


def test_what_the_libraries_depend_on_of_others_is_in_the_notice() -> None:
    query = 'kind("cc_library|cc_import", deps(//:package_libraries))'
    options = ["--noshow_progress", "--ui_event_filters=-info"]
    done = subprocess.run([*BAZEL, "query", *options, query], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    others = set(re.findall(r"^@(\w+)//", done.stdout, re.MULTILINE)) - {"bazel_tools"}
    assert others == set(NOTICED)
    for name in others:
        assert section(NOTICED[name])


def test_notice_says_which_libraries_have_abseil_in_them() -> None:
    assert LIBRARIES
    assert {path for path in LIBRARIES if b"absl" in path.read_bytes()} == noticed_libraries("Abseil")


def test_notice_says_which_libraries_are_built_on_pytorch() -> None:
    def needs_torch(path: Path) -> bool:
        told = subprocess.run(["objdump", "-p", path], check=True, capture_output=True, text=True).stdout
        return re.search(r"NEEDED +libc10\.so", told) is not None

    assert {path for path in LIBRARIES if needs_torch(path)} == noticed_libraries("PyTorch")


def test_notice_names_files_that_exist() -> None:
    named = re.findall(r"(?:third_party|bench|examples)/[\w/.-]*\w", NOTICE)
    assert {path for path in TERMS if path.startswith("third_party")} <= set(named)
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_terms_of_abseil_are_those_that_came_with_it() -> None:
    abseil = Path(os.environ.get("FRUGAL_ABSEIL", ROOT / ".deps" / "abseil"))
    assert (ROOT / "third_party" / "licenses" / "abseil.txt").read_text() == (abseil / "LICENSE").read_text()


def test_data_lies_beside_a_document_that_says_what_it_is() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("which files are the project's is known in a git checkout alone")
    paths = [ROOT / name for name in filter(None, listed.stdout.split("\0")) if (ROOT / name).is_file()]
    data = [path for path in paths if path.suffix == ".csv" or b"\0" in path.read_bytes()]
    assert data
    for path in data:
        beside = "".join(document.read_text() for document in path.parent.glob("*.md"))
        # A recording goes by its name without what comes after the first dot.
        is_named = path.name in beside or f"`{path.name.partition('.')[0]}`" in beside
        assert is_named, f"no document in {path.parent} names {path.name}, its source and its terms"


def test_wheel_has_the_terms_and_names_them(tmp_path: Path) -> None:
    folder = tmp_path / build_backend.prepare_metadata_for_build_wheel(str(tmp_path))
    metadata = email.message_from_string((folder / "METADATA").read_text())
    assert metadata["License-Expression"] == "BSD-3-Clause"
    assert sorted(metadata.get_all("License-File")) == TERMS
    for name in TERMS:
        assert (folder / "licenses" / name).read_bytes() == (ROOT / name).read_bytes()


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="an sdist is made of a git checkout")
def test_sdist_has_the_terms_and_names_them(tmp_path: Path) -> None:
    name = build_backend.build_sdist(str(tmp_path))
    stem = name.removesuffix(".tar.gz")
    with tarfile.open(tmp_path / name) as archive:
        metadata = email.message_from_bytes(archive.extractfile(f"{stem}/PKG-INFO").read())
        assert sorted(metadata.get_all("License-File")) == TERMS
        assert {f"{stem}/{path}" for path in TERMS} <= set(archive.getnames())


def test_metadata_says_what_an_index_shows() -> None:
    metadata = email.message_from_string(project_metadata.read().metadata())
    assert metadata["Metadata-Version"] == "2.4"
    assert metadata["Version"] == frugal_alloc.__version__
    assert metadata["Description-Content-Type"].startswith("text/markdown")
    assert metadata.get_payload().startswith("# frugal_alloc\n")
    # An index refuses both an expression and a classifier of a licence.
    assert not [classifier for classifier in metadata.get_all("Classifier") if classifier.startswith("License")]
    pythons = [int(minor) for minor in re.findall(r"Python :: 3\.(\d+)\n", "\n".join(metadata.get_all("Classifier")))]
    assert pythons == list(range(int(metadata["Requires-Python"].removeprefix(">=3.")), 15))
    assert metadata["Requires-Python"] == ">={}.{}".format(*installation.OLDEST_PYTHON)


def test_links_follow_from_the_address_and_there_are_none_without() -> None:
    project = project_metadata.read()
    table, version = project.table, project.version
    unpublished = project_metadata.Project(table, version, "").metadata()
    assert "Project-URL" not in unpublished
    published = project_metadata.Project(table, version, "https://home.example/it").metadata()
    assert f"Project-URL: Changelog, https://home.example/it/blob/v{version}/CHANGELOG.md\n" in published
    assert f"(https://home.example/it/blob/v{version}/docs/tuning.md)" in published
    assert not re.search(r"\]\((?!https?:|#)", published), "a link that leads nowhere from an index"


def imported() -> set[str]:
    """What the packages import, wherever they do, beyond themselves, torch and the standard library."""
    names: set[str] = set()
    for path in (path for package in PACKAGES for path in package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names.add(node.module or "")
    known = {*sys.stdlib_module_names, *(package.name for package in PACKAGES), "torch"}
    return {name.partition(".")[0] for name in names} - known


def test_each_library_that_is_imported_is_in_an_extra() -> None:
    extras = project_metadata.read().table["optional-dependencies"]
    offered = {requirement for requirements in extras.values() for requirement in requirements}
    assert {"rich", "jinja2", "ignite"} <= imported()
    assert {MODULES.get(name, name) for name in imported() - NO_EXTRA} <= offered
