from __future__ import annotations

import json
import os
import resource
import signal
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from trueneg.errors import LexiconError
from trueneg.files.arrays import ArrayFile

FILE = ArrayFile("made-up table", "3", LexiconError, "make it again")


@dataclass(frozen=True)
class About:
    name: str
    num: int


ARRAYS = {
    "keys": np.array([1, 2, 7], np.int64),
    "half": np.array([[1, 0.5]], np.float16),
    "none": np.zeros(0, np.uint8),
    "scalar": np.array(0.5, np.float32),
    "turned": np.arange(6, dtype=np.int32).reshape(2, 3).T,
}
ABOUT = {"name": "ü", "num": 3}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    FILE.write(tmp_path / "table", ARRAYS, ABOUT)
    return tmp_path / "table"


def test_what_was_written_is_read(path: Path) -> None:
    arrays, about = FILE.read(path, About)
    assert about == About("ü", 3)
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype and arrays[name].shape == array.shape
        np.testing.assert_array_equal(arrays[name], array)


def test_a_flipped_bit_anywhere_is_noticed(path: Path, tmp_path: Path) -> None:
    content, odd = path.read_bytes(), tmp_path / "odd"
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1 << (5 * place) % 8
        odd.write_bytes(changed)
        with pytest.raises(LexiconError, match=r"odd'.*make it again"):
            FILE.read(odd, About)


def test_torn_and_missing_files_are_refused(path: Path, tmp_path: Path) -> None:
    content = path.read_bytes()
    for length in (0, 4, 20, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(LexiconError, match=r"cannot read the made-up table '.*table' .*make it again"):
            FILE.read(path, About)
    for place in (tmp_path / "missing", tmp_path):
        with pytest.raises(LexiconError, match="cannot read the made-up table"):
            FILE.read(place, About)


def changed(path: Path, **texts: str) -> Path:
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + length])
    save_file(load_file(path), path, metadata=header["__metadata__"] | texts)
    return path


@pytest.mark.parametrize(
    ("texts", "named"),
    [
        ({"kind": "other"}, "holds no made-up table"),
        ({"version": "2"}, "a made-up table of version 2, not 3"),
        ({"about": '{"name": "u", "num": 3}'}, r"damaged \(checksum\)"),
        ({"checksum": "0"}, r"damaged \(checksum\)"),
        ({"surprise": "x"}, r"damaged \(checksum\)"),
    ],
)
def test_other_texts_are_refused(path: Path, texts: dict[str, str], named: str) -> None:
    with pytest.raises(LexiconError, match=rf"{named}.*: make it again"):
        FILE.read(changed(path, **texts), About)


def test_other_files_are_refused(tmp_path: Path) -> None:
    save_file({"keys": np.zeros(3)}, tmp_path / "bare")
    with pytest.raises(LexiconError, match="holds no made-up table: make it again"):
        FILE.read(tmp_path / "bare", About)


def test_json_of_another_shape_is_refused(tmp_path: Path) -> None:
    FILE.write(tmp_path / "table", ARRAYS, {"name": "u", "num": "3"})
    with pytest.raises(LexiconError, match=r"'num' .*: make it again"):
        FILE.read(tmp_path / "table", About)


@contextmanager
def no_room(size: int) -> Iterator[None]:
    """No file grows beyond a size, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_without_room_the_old_file_stays(path: Path) -> None:
    with (
        no_room(100),
        pytest.raises(LexiconError, match=r"cannot write the made-up table to '.*table' \(File too large"),
    ):
        FILE.write(path, ARRAYS, {"name": "new", "num": 4})
    assert FILE.read(path, About)[1].num == 3
    assert [file.name for file in path.parent.iterdir()] == ["table"]
    with pytest.raises(LexiconError, match="cannot write the made-up table"):
        FILE.write(path / "inside", ARRAYS, ABOUT)


def test_several_may_write_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: FILE.write(tmp_path / "table", ARRAYS, ABOUT), range(40)))
    assert FILE.read(tmp_path / "table", About)[1] == About("ü", 3)
    assert [file.name for file in tmp_path.iterdir()] == ["table"]


def test_the_mode_is_what_the_umask_leaves(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        FILE.write(tmp_path / "table", ARRAYS, ABOUT)
    finally:
        os.umask(before)
    assert (tmp_path / "table").stat().st_mode & 0o777 == 0o600
