"""What CONTRIBUTING.md tells a newcomer to do and to touch is there; the files of habits say what they have to."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import frugal_alloc
import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
PATH = re.compile(r"(?<![\w/.])((?:\.github|allocator|bindings|conda|cuda|docs|simulated_gpu|tests|tools)/[\w./-]*\w)")
RECIPES = dict(re.findall(r"^### (.+)\n\n((?:(?!#).*\n)+)", TEXT, re.MULTILINE))
TEMPLATES = sorted(path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_targets_of_bazel_that_are_named_exist() -> None:
    targets = re.findall(r"bazel test //([\w/]+):(\w+)", TEXT)
    assert len(targets) >= 2
    assert [target for folder, target in targets if not (ROOT / folder / f"{target}.cc").exists()] == []


@pytest.mark.parametrize(
    "recipe, owner, name",
    [
        ("A driver cost", "allocator/port/driver_cost_table.h", "FRUGAL_DRIVER_COSTS"),
        ("A driver cost", "simulated_gpu/machine/latency_model.h", "costs.Create("),
        ("A leak pattern", "bindings/frugal_alloc/_tracking/patterns.py", "RULES"),
        ("A leak pattern", "tests/leaks/claims.py", "VERDICT"),
        ("A verdict on an out-of-memory error", "bindings/adapter/out_of_memory.cc", "VerdictText"),
        ("A verdict on an out-of-memory error", "tests/out_of_memory/error_claims.py", "FITS-AFTER"),
        ("A verdict on an out-of-memory error", "bindings/frugal_alloc/_out_of_memory/message.py", "def _verdict("),
        ("A verdict on an out-of-memory error", "bindings/frugal_alloc/_out_of_memory/situation.py", "def _verdict("),
        ("A verdict on an out-of-memory error", "bindings/frugal_alloc/_out_of_memory/remedies.py", "def _about_the"),
        ("A statistic", "allocator/blocks/ledger.h", "void Stitched("),
        ("A setting", "bindings/settings/settings.cc", "kKeys"),
        ("A setting", "bindings/include/frugal_alloc/torch.h", "struct Options"),
    ],
)
def test_recipe_names_the_file_that_owns_the_thing(recipe: str, owner: str, name: str) -> None:
    assert owner in RECIPES[recipe]
    assert name in (ROOT / owner).read_text()


def test_recipe_for_a_setting_names_every_file_of_ours_that_lists_the_settings() -> None:
    listing = {
        path.relative_to(ROOT).as_posix()
        for folder in ("bindings", "tests")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".cc", ".h", ".py"}
        and path != Path(__file__)
        # They are named together where all are listed.
        and {"driver_reserve", "idle_release", "remap"} <= set(re.findall(r"\w+", path.read_text()))
    }
    assert len(listing) >= 6
    assert {path for path in listing if path not in RECIPES["A setting"]} == set()


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.stem)
def test_templates_ask_for_what_the_doctor_prints(template: Path) -> None:
    assert "label: frugal-alloc doctor --json\n" in template.read_text()


def test_changes_begin_with_the_version_of_the_package() -> None:
    versions = re.findall(r"^## (\d+\.\d+\.\d+),", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert versions[0] == frugal_alloc.__version__


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_run_what_exists_and_pin_what_they_use(workflow: Path) -> None:
    text = workflow.read_text()
    commands = re.findall(r"^ +run: (.+)$", text, re.MULTILINE)
    for path in PATH.findall("\n".join(commands)):
        assert (ROOT / path).exists(), path
    for action in re.findall(r"uses: ([^.\s]\S*)", text):
        assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action), f"{action} can change under us"
    assert "\npermissions: {}\n" in text


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """What tools/release_check looks at, complete but for what a test takes away."""
    parts = ["CHANGELOG.md", "README.md", "pyproject.toml", "conda/recipe.yaml", "bindings/frugal_alloc/__init__.py"]
    for part in [*parts, "tools/release_check", "tools/project_metadata.py"]:
        (tmp_path / part).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / part, tmp_path / part)
    replace(tmp_path / "pyproject.toml", r'^home = ".*"', 'home = "https://home.example/it"')
    replace(tmp_path / "CHANGELOG.md", r"^## \d.*", f"## {frugal_alloc.__version__}, 2026-12-01")
    replace(tmp_path / "conda" / "recipe.yaml", r"^context:\n", 'context:\n  home: "https://home.example/it"\n')
    return tmp_path


def replace(path: Path, pattern: str, new: str) -> None:
    text, count = re.subn(pattern, new, path.read_text(), count=1, flags=re.MULTILINE)
    assert count == 1, pattern
    path.write_text(text)


def checked(folder: Path, tag: str = f"v{frugal_alloc.__version__}") -> tuple[int, str]:
    command = [sys.executable, folder / "tools" / "release_check", tag]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stderr


def test_complete_release_is_let_through(release: Path) -> None:
    assert checked(release) == (0, "")


@pytest.mark.parametrize(
    "part, pattern, new, told",
    [
        ("pyproject.toml", r'^home = ".*"', 'home = ""', "set home in pyproject.toml"),
        ("CHANGELOG.md", r"^## \d.*", "## 0.0.1, 2026-12-01", "CHANGELOG.md has no heading"),
        ("conda/recipe.yaml", r"^  version: .*", '  version: "0.0.1"', "conda/recipe.yaml is not of version"),
        ("conda/recipe.yaml", r"^  home: .*", '  home: "https://old.example"', "conda/recipe.yaml has not the address"),
        ("bindings/frugal_alloc/__init__.py", r"^__version__ = .*", '__version__ = "9.9.9"', "__version__ is 9.9.9"),
    ],
)
def test_release_that_is_not_ready_is_stopped_with_what_to_do(
    release: Path, part: str, pattern: str, new: str, told: str
) -> None:
    replace(release / part, pattern, new)
    status, said = checked(release)
    assert status == 1 and told in said


def test_conda_recipe_names_no_architecture_without_the_other() -> None:
    lines = (ROOT / "conda" / "recipe.yaml").read_text().splitlines()
    naming = [line for line in lines if re.search(r"x86_64|aarch64|linux-?64", line)]
    assert naming
    assert [line for line in naming if not ("x86_64" in line and "aarch64" in line)] == []
