"""State that the stages of a run share while a command trains them."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from trueneg.config.options import PretrainConfig
from trueneg.config.stages import Stage, stages_of
from trueneg.training.distributed import Processes
from trueneg.training.folder import METRICS
from trueneg.training.log import Display, MetricsFile, Tracker


@dataclass
class Session:
    """State shared by the stages that a command trains."""

    config: PretrainConfig
    """The run's. Its ``auto`` options are resolved by the first stage."""
    folder: Path
    processes: Processes
    device: torch.device
    opened: ExitStack
    """Closes files and trackers at the end."""
    quiet: bool
    verify: bool
    precision_note: str
    display: Display | None = None
    """None before the first stage is ready."""
    metrics: MetricsFile | None = None
    tracker: Tracker | None = None
    begun: float | None = None
    num_parameters: int = 0

    def settle(self, own: PretrainConfig, number: int) -> Stage:
        """Record the ``auto`` options that a stage resolved, for later stages and for a resumed run.

        Args:
            own: The stage's configuration.
            number: Its index.

        Returns:
            The stage, whose place in its corpus may depend on them.
        """
        config = self.config
        # What a stage itself sets is not the run's.
        named = {one.partition("=")[0] for stage in config.stages[number : number + 1] for one in stage.settings}
        if config.corpus.pack == "auto" and "corpus.pack" not in named:
            config = replace(config, corpus=replace(config.corpus, pack=own.corpus.pack))
        if config.model.attention in ("auto", "documents"):
            config = replace(config, model=replace(config.model, attention=own.model.attention))
        if config.model.norms == "auto":
            config = replace(config, model=replace(config.model, norms=own.model.norms))
        if config.train.compile == "auto" and "train.compile" not in named:
            config = replace(config, train=replace(config.train, compile=own.train.compile))
        self.config = config
        return stages_of(config)[number]

    def open(self, step: int) -> Display:
        """Show progress, and open the files that the main process writes, from a step on."""
        is_main = self.processes.is_main
        if is_main:
            self.metrics = self.opened.enter_context(closing(MetricsFile(self.folder / METRICS, step)))
            if self.tracker is not None:
                self.opened.callback(self.tracker.close)
        self.display = self.opened.enter_context(
            Display(self.config.train.steps, max(step, 0), self.quiet or not is_main)
        )
        return self.display
