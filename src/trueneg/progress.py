"""How far long work has come, on standard error: one live line on a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from trueneg.printable import printable
from trueneg.streams import lasting

FIRST_SECONDS, MOST_SECONDS = 10.0, 300.0
"""A log is told after so long first, then at intervals that double, up to so long."""

_SHORT = 12  # characters of a title that is shown whole at any width


class Bar:
    """A bar with what is done, its total and the time left; they stay on the line however narrow the terminal is.

    Args:
        title: What is going on.
        total: How much there is to do; None if nobody knows.
        unit: What is counted, after the numbers.
        start: What was done before, which says nothing of the speed.
        quiet: Show nothing.
        console: Where to; standard error by default.
    """

    def __init__(
        self,
        title: str,
        total: int | None = None,
        *,
        unit: str = "",
        start: int = 0,
        quiet: bool = False,
        console: Console | None = None,
    ) -> None:
        self._console = console or Console(file=lasting(sys.stderr), quiet=quiet)
        self.is_live = not quiet and self._console.file.isatty()
        self._title, self._unit, self.total = printable(title), f" {unit}" if unit else "", total
        self._start, self._done, self._reading = start, start, ""
        self._began = self._said = time.monotonic()
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
        self._began = self._said = time.monotonic()
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def advance(self, num: int = 1) -> None:
        """So much more is done."""
        self.reach(self._done + num)

    def reach(self, done: int, reading: str = "") -> None:
        """So much is done, with something to show beside it from now on."""
        self._done, self._reading = done, reading or self._reading
        if self.is_live:
            left = f"{self._left()} left" if self._left() else ""
            self._progress.update(self._task, completed=done, counted=self._counted(), reading=self._reading, left=left)
        elif time.monotonic() - self._said >= self._every:
            self.print(f"{self._title}: {self._counted()}  {self.times()}")

    def print(self, line: str) -> None:
        """Say something on a line of its own, which stays; a log hears no more for a while."""
        now = time.monotonic()
        if now - self._said >= self._every:
            self._every = min(2 * self._every, MOST_SECONDS)
        self._said = now
        self._console.print(line, soft_wrap=True, highlight=False, markup=False)

    def times(self) -> str:
        """Time gone by and time left, for a line."""
        gone = duration(time.monotonic() - self._began)
        return f"{gone} elapsed, {self._left()} left" if self._left() else f"{gone} elapsed"

    def _counted(self) -> str:
        of = "" if self.total is None else f"/{self.total:,}"
        return f"{self._done:,}{of}{self._unit}"

    def _left(self) -> str:
        """Time left at the mean speed until now; empty while there is none."""
        if self.total is None or self._done <= self._start:
            return ""
        each = (time.monotonic() - self._began) / (self._done - self._start)
        return duration(each * max(0, self.total - self._done))


class _Title(ProgressColumn):
    """What is going on, cut before anything else is."""

    def __init__(self, column: Column) -> None:
        super().__init__(column)

    def render(self, task: Task) -> Text:
        return Text(task.description, no_wrap=True, overflow="ellipsis")


def duration(seconds: float) -> str:
    """Hours, minutes and seconds.

    Example:
        >>> duration(3725.4)
        '1:02:05'
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
