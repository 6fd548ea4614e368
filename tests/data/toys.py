"""One of each kind of plugin, in a module outside of trueneg: see tests/cli/test_plugins.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from trueneg.attacks.base import AdversarialExample, Attack
from trueneg.attacks.setup import AttackSetup
from trueneg.config.finetune_options import TaskConfig
from trueneg.config.objective_options import ObjectiveConfig
from trueneg.config.options import PretrainConfig
from trueneg.corpus.rows import RowIndex
from trueneg.corruption.rows import Batch, MaskedRows, ReadRows, Rows, read_rows
from trueneg.detectors.base import Detector
from trueneg.detectors.scorers.base import Scores, Substitution, SubstitutionScorer
from trueneg.models.backbone import MaskedLanguageModel
from trueneg.models.loading import load_masked_lm, masked_lm_of_shapes
from trueneg.objectives.base import Objective, Outcome, Sums
from trueneg.objectives.kinds import ObjectiveKind
from trueneg.objectives.mlm import MaskedLM, MaskedLMKind
from trueneg.tasks.base import Split
from trueneg.tasks.text import TextExample, TextTask

TRUENEG = {
    "objectives": {"toy-objective": "toys:OddKind"},
    "scorers": {"toy-scorer": "toys:make_scorer"},
    "detectors": {"toy-detector": "toys:make_detector"},
    "tasks": {"toy-task": "toys:ToyTask"},
    "attacks": {"toy-attack": "toys:make_attack"},
}


@dataclass(frozen=True)
class OddRows(Batch):
    """Rows, masked or not, and which stand at odd positions of the training order."""

    rows: Any
    is_odd: Tensor


class OddModel(MaskedLanguageModel):
    """A masked language model with a head of its own."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.odd_head = nn.Linear(model.config.hidden_size, 1)


class Odd(Objective[OddRows, OddRows]):
    """Masked language modelling, and which rows are odd."""

    needs_reader = True

    def __init__(self, masked_lm: MaskedLM, weight: float) -> None:
        super().__init__()
        self.masked_lm = masked_lm
        self.weights = {**masked_lm.weights, "odd": weight}

    def corrupt(self, rows: OddRows) -> OddRows:
        return replace(rows, rows=self.masked_lm.corrupt(rows.rows))

    def counts(self, batch: OddRows) -> Sums:
        return self.masked_lm.counts(batch.rows) | {"odd": torch.ones_like(batch.is_odd).sum()}

    def forward(self, model: OddModel, batch: OddRows) -> Outcome:
        masked: MaskedRows = batch.rows
        hidden = model.encode(masked.input_ids, masked.rows)
        outcome = self.masked_lm.outcome(model, self.masked_lm.predict(model, masked, hidden))
        logits = model.odd_head(hidden[:, 0]).squeeze(-1).float()
        loss = functional.binary_cross_entropy_with_logits(logits, batch.is_odd, reduction="sum")
        return Outcome(outcome.terms | {"odd": loss}, outcome.stats)


@dataclass(frozen=True)
class OddOptions:
    """Options of the objective."""

    weight: float = 1.0


class OddKind(ObjectiveKind):
    """Predict masked words, and which rows are odd."""

    defaults = MaskedLMKind.defaults
    Options = OddOptions

    def make_objective(self, config: ObjectiveConfig, tokenizer: Any, vocab_size: int) -> Odd:
        return Odd(MaskedLM.from_config(config, tokenizer, vocab_size), self.options(config).weight)

    def make_model(self, config: PretrainConfig, tokenizer: Any) -> OddModel:
        return OddModel(load_masked_lm(config.model, tokenizer).model)

    def model_of_shapes(self, config: PretrainConfig, folder: Path) -> OddModel:
        return OddModel(masked_lm_of_shapes(config.model, folder))

    def make_reader(self, config: PretrainConfig, rows: RowIndex, tokenizer: Any) -> ReadRows:
        def read(index: RowIndex, numbers: np.ndarray, seed: int, positions: np.ndarray) -> OddRows:
            plain: Rows = read_rows(index, numbers, seed, positions)
            return OddRows(plain, torch.from_numpy(positions % 2).float())

        return read


class ToyScorer(SubstitutionScorer):
    """Accepts short words."""

    def scores(self, substitutions: Sequence[Substitution]) -> Scores:
        return np.array([float(len(one.substitute) < 6) for one in substitutions])


def make_scorer(leaf: Any, resources: Any) -> ToyScorer:
    """Accepts short words."""
    return ToyScorer()


class ToyDetector(Detector):
    """Accepts every prediction."""

    def credit(self, gold: Tensor, predicted: Tensor, batch: MaskedRows) -> Tensor:
        return torch.ones(predicted.shape, device=predicted.device)


def make_detector(leaf: Any, config: Any, tokenizer: Any) -> ToyDetector:
    """Accepts every prediction."""
    return ToyDetector()


class ToyTask(TextTask):
    """Is the film happy?"""

    @classmethod
    def from_config(cls, options: TaskConfig, labels: Any = None) -> Self:
        return cls(options.name, metrics=("accuracy",), labels=("no", "yes"))

    def read(self, split: str, *, is_whole: bool = False) -> Split[TextExample]:
        words = ("small", "happy")
        texts = [TextExample(f"{split}-{n}", f"the {words[n % 2]} film number {n}", label=n % 2) for n in range(12)]
        return Split(split, texts, is_labelled=True)


@dataclass(frozen=True)
class ToyAttackOptions:
    """Options of the attack."""

    times: int = 2


def make_attack(setup: AttackSetup) -> Attack:
    """Writes texts twice."""
    options = setup.options({"default": ToyAttackOptions()})

    def run(examples: Sequence[Any]) -> list[AdversarialExample[Any]]:
        return [
            AdversarialExample(one, replace(one, text=" ".join([one.text] * options.times)), outcome="changed")
            for one in examples
        ]

    return Attack(run, options)
