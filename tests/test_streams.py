"""Output that nobody reads any more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trueneg.terminal.streams import lasting


def test_a_stream_whose_reader_left_goes_silent() -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream:
        lasting(stream).write("heard")
        lasting(stream).flush()
        assert os.read(reader, 9) == b"heard"
        os.close(reader)
        for _ in range(3):
            lasting(stream).write("x" * 100_000)
            lasting(stream).flush()


def test_a_terminal_that_was_closed_goes_silent() -> None:
    user, terminal = os.openpty()
    os.close(user)
    with os.fdopen(terminal, "w") as stream:
        lasting(stream).write("nobody")
        lasting(stream).flush()


def test_a_full_disk_is_no_lost_reader() -> None:
    with pytest.raises(OSError, match="No space left"), Path("/dev/full").open("w") as full:
        lasting(full).write("much")
        lasting(full).flush()


def test_everything_else_is_the_streams_own() -> None:
    assert lasting(sys.__stdout__).encoding == sys.__stdout__.encoding  # type: ignore[union-attr,arg-type]


@pytest.mark.parametrize("arguments", [("list", "options"), ("list", "presets", "--json"), ("list", "unheard-of")])
def test_a_command_whose_readers_left_does_its_work(arguments: tuple[str, ...]) -> None:
    """As under ``| true``, or in a terminal that was closed."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "trueneg", *arguments]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    is_mistaken = "unheard-of" in arguments
    assert (done.returncode, done.stderr[:6]) == ((1, "error:") if is_mistaken else (0, ""))
    assert subprocess.run(command, stdout=writer, stderr=writer, timeout=60, check=False).returncode == is_mistaken
    os.close(writer)
