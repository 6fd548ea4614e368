"""Progress of long work on standard error: one live line on a terminal, occasional lines in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from trueneg.terminal.printable import printable
from trueneg.terminal.streams import lasting

T = TypeVar("T")

FIRST_SECONDS, MOST_SECONDS = 10.0, 300.0
"""Seconds until the first line of a log, and the longest interval; intervals double in between."""

ProgressCallback = Callable[[int, int], None]
"""Progress callback, called with the amount done and the total."""

_SHORT = 12  # titles of up to this many characters are shown in full at any width


class Bar:
    """A progress bar with the amount done, the total and the time left, shown however narrow the terminal is.

    Args:
        title: Name of the work.
        total: Amount of work; None if unknown.
        unit: Unit to show after the numbers.
        per: Divisor of the numbers shown, which then have one decimal: a million, to show bytes as MB.
        start: Amount done before, which does not count for the speed.
        quiet: Show nothing.
        console: Where to print; standard error by default.
    """

    def __init__(
        self,
        title: str,
        total: int | None = None,
        *,
        unit: str = "",
        per: int = 1,
        start: int = 0,
        quiet: bool = False,
        console: Console | None = None,
    ) -> None:
        self._console = console or Console(file=lasting(sys.stderr), quiet=quiet)
        self.is_live = not quiet and self._console.file.isatty()
        self._title, self._unit, self.total = printable(title), f" {unit}" if unit else "", total
        self._per = per
        self._start, self._done, self._reading = start, start, ""
        self._began = self._said = self._reached = time.monotonic()
        self._every = FIRST_SECONDS
        self._progress = Progress(
            _Title(Column(no_wrap=len(self._title) <= _SHORT)),
            BarColumn(bar_width=None, table_column=Column(max_width=24)),
            *(
                TextColumn(f"{{task.fields[{name}]}}", markup=False, table_column=Column(no_wrap=True))
                for name in ("counted", "reading", "left")
            ),
            console=self._console,
            disable=not self.is_live,
        )
        self._task = self._progress.add_task(
            self._title, total=total, completed=start, counted=self._counted(), reading="", left=""
        )

    def __enter__(self) -> Self:
        self._began = self._said = self._reached = time.monotonic()
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def advance(self, num: int = 1) -> None:
        """Add to the amount done."""
        self.reach(self._done + num)

    def reach(self, done: int, reading: str = "") -> None:
        """Set the amount done and, if given, the text to show next to it from now on."""
        self._done, self._reading, self._reached = done, reading or self._reading, time.monotonic()
        if self.is_live:
            left = f"{self._left()} left" if self._left() else ""
            shown: dict[str, Any] = {"counted": self._counted(), "reading": self._reading, "left": left}
            self._progress.update(self._task, total=self.total, completed=done, **shown)
        elif time.monotonic() - self._said >= self._every:
            self.print(f"{self._title}: {self._counted()}  {self.times()}")

    def tell(self, done: int, of: int) -> None:
        """Set the amount done and the total; a count that falls starts a new phase, with a speed of its own."""
        if done < self._done:
            self._began, self._start = self._reached, 0
        self.total = of
        self.reach(done)

    def print(self, line: str) -> None:
        """Print a line that stays; in a log, the next progress line is then delayed."""
        now = time.monotonic()
        if now - self._said >= self._every:
            self._every = min(2 * self._every, MOST_SECONDS)
        self._said = now
        self._console.print(printable(line), soft_wrap=True, highlight=False, markup=False)

    def times(self) -> str:
        """Elapsed time and time left, as text."""
        gone = duration(time.monotonic() - self._began)
        return f"{gone} elapsed, {self._left()} left" if self._left() else f"{gone} elapsed"

    def _counted(self) -> str:
        if not self._done and self.total is None:
            return ""
        shown = [number for number in (self._done, self.total) if number is not None]
        return "/".join(f"{n:,}" if self._per == 1 else f"{n / self._per:,.1f}" for n in shown) + self._unit

    def _left(self) -> str:
        """Time left at the mean speed so far; empty while unknown."""
        if self.total is None or self._done <= self._start:
            return ""
        each = (time.monotonic() - self._began) / (self._done - self._start)
        return duration(each * max(0, self.total - self._done))


class _Title(ProgressColumn):
    """The title, truncated before any other column is."""

    def __init__(self, column: Column) -> None:
        super().__init__(column)

    def render(self, task: Task) -> Text:
        return Text(task.description, no_wrap=True, overflow="ellipsis")


def no_progress(done: int, of: int) -> None:
    """Ignore progress."""


def counted(items: Iterable[T], sizes: Iterable[int], of: int, tell: ProgressCallback) -> Iterator[T]:
    """Yield items, and report the amount done after each.

    Example:
        >>> list(counted("ab", [2, 3], 5, print))
        2 5
        5 5
        ['a', 'b']
    """
    done = 0
    for item, size in zip(items, sizes, strict=True):
        yield item
        done += size
        tell(done, of)


def duration(seconds: float) -> str:
    """Hours, minutes and seconds.

    Example:
        >>> duration(3725.4)
        '1:02:05'
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
