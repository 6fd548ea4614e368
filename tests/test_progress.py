"""Bars: what a log hears, and how seldom."""

from __future__ import annotations

import io
from itertools import pairwise

import pytest
from rich.console import Console

from trueneg.terminal import progress
from trueneg.terminal.progress import Bar


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that tests set."""
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    return clock


def test_a_log_is_told_now_and_then_with_its_total_and_the_time_left(now: list[float]) -> None:
    file = io.StringIO()
    with Bar("annotating", 4000, unit="tokens", console=Console(file=file, width=60)) as bar:
        for _ in range(4000):
            now[0] += 1
            bar.advance()
    lines = file.getvalue().splitlines()
    assert lines[0] == "annotating: 10/4,000 tokens  0:00:10 elapsed, 1:06:30 left"
    done = [int(line.split()[1].partition("/")[0].replace(",", "")) for line in lines]
    assert done[:4] == [10, 30, 70, 150]
    assert max(later - former for former, later in pairwise(done)) <= progress.MOST_SECONDS


def test_what_was_done_before_says_nothing_of_the_speed(now: list[float]) -> None:
    file = io.StringIO()
    with Bar("training", 100, start=80, console=Console(file=file, width=60)) as bar:
        now[0] = 20
        bar.reach(90)
    assert file.getvalue() == "training: 90/100  0:00:20 elapsed, 0:00:20 left\n"


@pytest.mark.parametrize("total", [None, 5])
def test_a_short_job_says_nothing_to_a_log(total: int | None, capsys: pytest.CaptureFixture[str]) -> None:
    with Bar("reading", total) as bar:
        bar.advance(5)
    assert capsys.readouterr() == ("", "")


def test_a_count_that_falls_begins_anew_with_its_own_speed(now: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "FIRST_SECONDS", 0.0)
    file = io.StringIO()
    with Bar("evaluating", unit="rows", console=Console(file=file, width=60)) as bar:
        for seconds, done, of in ((100.0, 5, 10), (200.0, 10, 10), (201.0, 4, 8)):
            now[0] = seconds
            bar.tell(done, of)
    lines = file.getvalue().splitlines()
    assert lines[0] == "evaluating: 5/10 rows  0:01:40 elapsed, 0:01:40 left"
    assert lines[2] == "evaluating: 4/8 rows  0:00:01 elapsed, 0:00:01 left"


def test_large_numbers_have_a_unit_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "FIRST_SECONDS", 0.0)
    file = io.StringIO()
    with Bar("building", 40_000_000, unit="MB", per=1_000_000, console=Console(file=file, width=60)) as bar:
        bar.advance(12_345_678)
    assert file.getvalue().startswith("building: 12.3/40.0 MB  ")


def test_what_is_handed_on_is_told_with_the_whole() -> None:
    told: list[tuple[int, int]] = []
    assert list(progress.counted("abc", [2, 2, 1], 5, lambda done, of: told.append((done, of)))) == ["a", "b", "c"]
    assert told == [(2, 5), (4, 5), (5, 5)]
