from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from trueneg.files.whole import replace_folder, restore_folder, whole_file, write_json, write_whole


def test_a_file_takes_its_place_whole(tmp_path: Path) -> None:
    write_whole(tmp_path / "a.txt", "old")
    write_json(tmp_path / "a.txt", {"ü": 1})
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == '{\n "ü": 1\n}\n'
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_after_an_error_the_old_file_is_there_and_nothing_else(tmp_path: Path) -> None:
    write_whole(tmp_path / "a.txt", "old")
    with pytest.raises(ZeroDivisionError), whole_file(tmp_path / "a.txt") as part:
        part.write_text("half")
        raise ZeroDivisionError
    assert (tmp_path / "a.txt").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize(("umask", "mode"), [(0o077, 0o600), (0o022, 0o644), (0o002, 0o664)])
def test_the_mode_is_that_of_a_new_file_whoever_writes_it(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        with whole_file(tmp_path / "a") as part:
            part.unlink()  # as safetensors does, which makes files that only their owner reads
            part.touch(mode=0o600)
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == mode


def test_files_of_a_folder_have_the_mode_of_new_ones_and_links_are_left_alone(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.touch(mode=0o600)

    def fill(folder: Path) -> None:
        (folder / "inner").mkdir()
        (folder / "inner" / "weights").touch(mode=0o600)
        (folder / "link").symlink_to(elsewhere)

    before = os.umask(0o022)
    try:
        replace_folder(tmp_path / "a", fill)
    finally:
        os.umask(before)
    assert (tmp_path / "a" / "inner" / "weights").stat().st_mode & 0o777 == 0o644
    assert elsewhere.stat().st_mode & 0o777 == 0o600


def test_leftovers_of_a_kill_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.json.part").write_text("{")
    write_json(tmp_path / "a.json", {})
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


DIES = """
import os, signal, sys
from pathlib import Path
from trueneg.files.whole import replace_folder
left = int(sys.argv[2])
def count(event, arguments):
    global left
    if event in {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree"}:
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
def fill(folder):
    for name in "ab":
        (folder / name).write_text("new")
sys.addaudithook(count)
replace_folder(Path(sys.argv[1]), fill)
"""


def test_a_folder_is_the_old_or_the_new_one_after_a_kill_at_any_moment(tmp_path: Path) -> None:
    seen = set()
    for moment in range(1, 40):
        folder = tmp_path / str(moment) / "hf"
        folder.mkdir(parents=True)
        for name in "ab":
            (folder / name).write_text("old")
        done = subprocess.run([sys.executable, "-c", DIES, str(folder), str(moment)], check=False)
        restore_folder(folder)
        found = {path.name: path.read_text() for path in folder.iterdir()}
        assert found in ({"a": "old", "b": "old"}, {"a": "new", "b": "new"})
        assert [path.name for path in folder.parent.iterdir()] == ["hf"]
        seen.add(found["a"])
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
    assert done.returncode == 0
    assert seen == {"old", "new"}


def test_a_folder_behind_a_link_is_replaced_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "large" / "hf").mkdir(parents=True)
    (tmp_path / "hf").symlink_to(tmp_path / "large" / "hf")
    (tmp_path / "large" / ".hf.old").symlink_to(tmp_path)  # a leftover, and not a folder to remove
    for content in ("first", "second"):
        replace_folder(tmp_path / "hf", lambda new, content=content: (new / "a").write_text(content))
        assert (tmp_path / "hf").is_symlink() and (tmp_path / "large" / "hf" / "a").read_text() == content
        assert [path.name for path in (tmp_path / "large").iterdir()] == ["hf"]
    assert (tmp_path / "hf" / "a").read_text() == "second"


def test_a_folder_stays_if_filling_fails(tmp_path: Path) -> None:
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf" / "a").write_text("old")

    def fill(folder: Path) -> None:
        (folder / "a").write_text("half")
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        replace_folder(tmp_path / "hf", fill)
    assert (tmp_path / "hf" / "a").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["hf"]


def test_the_working_folder_is_replaced_like_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hf").mkdir()
    monkeypatch.chdir(tmp_path / "hf")
    replace_folder(Path(), lambda folder: (folder / "a").write_text("new"))
    assert (tmp_path / "hf" / "a").read_text() == "new"
    (tmp_path / ".hf.old").mkdir()  # left by a kill
    monkeypatch.chdir(tmp_path / "hf")
    restore_folder(Path())
    assert [path.name for path in tmp_path.rglob("*")] == ["hf", "a"]
