"""Reports nobody asked for go where others can write, too: what they plant at a report's name is left alone."""

from __future__ import annotations

import json
import os
import shutil
import stat
import tempfile
from pathlib import Path

import hostile
import pytest
import report_samples as samples
from frugal_alloc._command import startup_hook
from frugal_alloc._report import files


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_text("precious")
    return path


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "shared"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(files, "_private", None)
    return folder


def identity(path: Path) -> tuple[int, int]:
    return path.lstat().st_ino, path.lstat().st_mode


@pytest.mark.parametrize("thing", ["a link to a file", *hostile.THINGS])
@pytest.mark.parametrize("suffix", [".json", ".html"])
def test_planted_name_is_neither_followed_nor_waited_for(thing: str, suffix: str, victim: Path, shared: Path) -> None:
    if thing == "nothing":
        return
    document = samples.out_of_memory()
    planted = shared / f"frugal-0-{document['run']['pid']}{suffix}"
    hostile.THINGS.get(thing, lambda path: path.symlink_to(victim))(planted)
    before = identity(planted)
    landed = Path(files.land(document, str(shared)))
    assert identity(planted) == before
    assert (victim.read_text(), planted.with_name("nothing").exists()) == ("precious", False)
    assert (landed.parent, landed.is_symlink()) == (shared, False)
    assert landed.stem != planted.stem
    assert json.loads(landed.with_suffix(".json").read_text())["oom"] is not None


def test_file_of_another_user_is_not_replaced(shared: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make another user's file")
    document = samples.healthy()
    theirs = shared / f"frugal-0-{document['run']['pid']}.json"
    theirs.write_text("theirs")
    os.chown(theirs, 65534, 65534)
    landed = Path(files.write(document, str(shared)))
    assert theirs.read_text() == "theirs"
    assert json.loads(landed.with_suffix(".json").read_text())["run"] == document["run"]


def test_report_is_for_its_user_alone_and_replaces_the_earlier_one(shared: Path) -> None:
    before = os.umask(0)
    try:
        paths = {files.write(samples.out_of_memory(), str(shared)) for _ in range(2)}
    finally:
        os.umask(before)
    assert len(paths) == 1
    assert {stat.S_IMODE(path.stat().st_mode) for path in shared.iterdir()} == {0o600}
    assert {path.suffix for path in shared.iterdir()} == {".json", ".html"}


def test_folder_that_cannot_be_written_is_made_up_for_by_a_private_one(victim: Path, shared: Path) -> None:
    document = samples.out_of_memory()
    (shared / f"frugal-0-{document['run']['pid']}.json").symlink_to(victim)
    first, second = (Path(files.land(document, str(victim))) for _ in range(2))
    assert first == second
    assert first.parent.parent == shared
    assert stat.S_IMODE(first.parent.stat().st_mode) == 0o700
    assert victim.read_text() == "precious"
    # Where it has gone, and somebody has put a link there, another one is made.
    shutil.rmtree(first.parent)
    first.parent.symlink_to(victim.parent)
    third = Path(files.land(document, str(victim)))
    assert third.parent != first.parent
    assert not third.parent.is_symlink()


def test_all_names_that_others_have_taken_are_told_in_one_line(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_MOST_NAMES", 3)
    document = samples.healthy()
    stem = f"frugal-0-{document['run']['pid']}"
    for name in (stem, f"{stem}-2", f"{stem}-3"):
        (shared / f"{name}.json").mkdir()
    with pytest.raises(Exception, match=r"the report cannot be written to .*: File exists$"):
        files.write(document, str(shared))
    assert len(list(shared.iterdir())) == 3


def test_hook_is_not_written_through_a_planted_link(
    victim: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(startup_hook, "path", lambda: shared / startup_hook.NAME)
    monkeypatch.setattr("site.getsitepackages", lambda: [str(shared)])
    (shared / startup_hook.NAME).with_suffix(f".{os.getpid()}").symlink_to(victim)
    assert startup_hook.install().read_text().startswith("import os; ")
    assert victim.read_text() == "precious"
