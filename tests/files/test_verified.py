from __future__ import annotations

import os
from pathlib import Path

import pytest

from trueneg.errors import CorpusError, TruenegWarning
from trueneg.files.digests import checksum
from trueneg.files.verified import Expected, verify


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"{number}.bin" for number in range(3)]
    for number, path in enumerate(paths):
        path.write_bytes(bytes([number]) * 1000)
        os.utime(path, (0, 0))
    return paths


class Reader:
    """Says which files were looked into, and what it was told to find in them."""

    def __init__(self, notes: Path) -> None:
        self.notes = notes
        self.read: list[str] = []
        self.faults: dict[str, str] = {}

    def look(self, path: Path) -> str | None:
        self.read.append(path.name)
        return self.faults.get(path.name)

    def __call__(self, expected: dict[Path, str], rule: str = "", *, again: bool = False) -> list[str]:
        self.read = []
        files = [Expected(path, digest, rule, lambda path=path: self.look(path)) for path, digest in expected.items()]  # type: ignore[misc]
        verify(files, CorpusError, "build it again", self.notes, again=again)
        return sorted(self.read)


def test_a_file_is_read_once_until_it_changes(files: list[Path], tmp_path: Path) -> None:
    reader, expected = Reader(tmp_path / "notes"), {path: checksum(path) for path in files}
    assert reader(expected) == ["0.bin", "1.bin", "2.bin"]
    assert reader(expected) == []
    assert reader(expected, again=True) == ["0.bin", "1.bin", "2.bin"]
    assert reader(expected, "another rule") == ["0.bin", "1.bin", "2.bin"]
    os.utime(files[1], (1, 1))
    assert reader(expected, "another rule") == ["1.bin"]
    content = files[2].read_bytes()
    files[2].unlink()
    files[2].write_bytes(content)
    os.utime(files[2], (0, 0))
    assert reader(expected, "another rule") == ["2.bin"]


def test_a_change_that_keeps_size_and_time_is_noticed(files: list[Path], tmp_path: Path) -> None:
    reader, expected = Reader(tmp_path / "notes"), {path: checksum(path) for path in files}
    reader(expected)
    with files[1].open("r+b") as file:
        file.write(b"x")
    os.utime(files[1], (0, 0))
    with pytest.raises(CorpusError, match=r"1\.bin' is damaged \(checksum\): build it again"):
        reader(expected)
    with pytest.raises(CorpusError, match=r"1\.bin' is damaged"):
        reader(expected)


def test_a_file_just_written_is_read_again(files: list[Path], tmp_path: Path) -> None:
    files[0].touch()
    reader, expected = Reader(tmp_path / "notes"), {path: checksum(path) for path in files}
    assert reader(expected) == ["0.bin", "1.bin", "2.bin"]
    assert reader(expected) == ["0.bin"]


def test_content_that_is_wrong_is_never_noted(files: list[Path], tmp_path: Path) -> None:
    reader, expected = Reader(tmp_path / "notes"), {path: checksum(path) for path in files}
    reader.faults = {"2.bin": "no sense"}
    for _ in range(2):
        with pytest.raises(CorpusError, match=r"2\.bin' is damaged \(no sense\): build it again"):
            reader(expected)
    reader.faults = {}
    assert "2.bin" in reader(expected)


def test_a_missing_file_is_named(files: list[Path], tmp_path: Path) -> None:
    expected = {path: checksum(path) for path in files}
    files[1].unlink()
    with pytest.raises(CorpusError, match=r"cannot read '.*1\.bin' .*build it again"):
        Reader(tmp_path / "notes")(expected)


@pytest.mark.parametrize("content", ["", "[]", '{"a": 1}', "[" * 10_000])
def test_damaged_notes_are_made_again(files: list[Path], tmp_path: Path, content: str) -> None:
    reader, expected = Reader(tmp_path / "notes"), {path: checksum(path) for path in files}
    reader(expected)
    (note,) = (tmp_path / "notes").iterdir()
    note.write_text(content)
    assert len(reader(expected)) == 3
    assert reader(expected) == []


def test_notes_that_cannot_be_written_cost_a_warning(files: list[Path], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    reader, expected = Reader(tmp_path / "file" / "notes"), {path: checksum(path) for path in files}
    for _ in range(2):
        with pytest.warns(TruenegWarning, match="TRUENEG_CACHE"):
            assert len(reader(expected)) == 3
