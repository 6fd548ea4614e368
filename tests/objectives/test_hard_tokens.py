"""Hard tokens: what a frozen model gets wrong in the text as it is, masked before anything else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import tiny
from trueneg.config.codec import decode
from trueneg.config.objective_options import ObjectiveConfig
from trueneg.corruption.masking import num_slots
from trueneg.corruption.rows import Rows
from trueneg.errors import ConfigError, ModelError
from trueneg.models.backbone import MaskedLanguageModel
from trueneg.models.modes import eval_mode
from trueneg.objectives.hard_tokens import HardTokens
from trueneg.objectives.mlm import MaskedLM

LENGTH = 24


def make_rows() -> Rows:
    return tiny.make_rows([[22], [13], [9, 7]], LENGTH, seed=3)


def probabilities(judge: MaskedLanguageModel, rows: Rows) -> torch.Tensor:
    """Of every entry at every token, by the model's own forward pass: one document a row."""
    with torch.no_grad():
        full = judge.model(input_ids=rows.input_ids, attention_mask=(rows.segments > 0).long()).logits
    return full.softmax(-1)


def knowing(model: MaskedLanguageModel, token: int) -> MaskedLanguageModel:
    """Have a model say one thing, whatever it reads."""
    with torch.no_grad():
        model.model.get_output_embeddings().bias[token] += 50  # type: ignore[operator, index]
    return model


@pytest.mark.parametrize("max_mb", [0.0, 0.01])
@pytest.mark.parametrize("below", [0.0, 0.5, "median"])
def test_hard_is_what_the_model_gets_wrong_or_is_unsure_of(below: float | str, max_mb: float) -> None:
    judge, rows = tiny.make_masked_lm(seed=7), tiny.make_rows([[22], [13], [9]], LENGTH, seed=3)
    is_read = rows.segments > 0
    if below != "median":
        knowing(judge, int(rows.input_ids[0, 5]))
    found = probabilities(judge, rows)
    of_gold = found.gather(-1, rows.input_ids.unsqueeze(-1)).squeeze(-1)
    middle = of_gold[is_read].sort().values[24:26]  # between two of them, where no rounding matters
    bound = float(middle.mean()) if below == "median" else float(below)
    expected = of_gold < bound if bound else found.argmax(-1) != rows.input_ids
    is_hard = HardTokens(judge, bound, max_mb)(rows)
    assert is_hard[is_read].tolist() == expected[is_read].tolist()
    assert 0 < int(is_hard[is_read].sum()) < int(is_read.sum())


class Every(HardTokens):
    """Calls every n-th column hard."""

    def __init__(self, every: int) -> None:
        super().__init__(tiny.make_masked_lm())
        self.every = every

    def forward(self, rows: Rows) -> torch.Tensor:
        return (torch.arange(rows.input_ids.shape[1]) % self.every == 0).expand_as(rows.input_ids)


@pytest.mark.parametrize("every", [1, 2, 5, 30])
def test_hard_tokens_are_masked_first_and_as_many_as_ever(every: int) -> None:
    rows, hard = make_rows(), Every(every)
    plain = MaskedLM(tiny.make_masking(rate=0.3)).corrupt(rows)
    found = MaskedLM(tiny.make_masking(rate=0.3), hard_tokens=hard).corrupt(rows)
    assert found.positions.shape[1] == num_slots(LENGTH, 0.3)
    assert found.is_masked.sum(1).tolist() == plain.is_masked.sum(1).tolist()
    can_be = hard(rows) & ~rows.is_special
    for row in range(len(rows.input_ids)):
        chosen = found.positions[row][found.is_masked[row]]
        assert len(set(chosen.tolist())) == len(chosen)
        assert not rows.is_special[row, chosen].any()
        assert int(can_be[row, chosen].sum()) == min(len(chosen), int(can_be[row].sum()))
    if every == 1:  # all are alike: the draws decide, as ever
        assert torch.equal(found.positions, plain.positions)


def test_held_out_text_has_the_masks_of_other_runs() -> None:
    rows = make_rows()
    plain, objective = (
        MaskedLM(tiny.make_masking(rate=0.3)),
        MaskedLM(tiny.make_masking(rate=0.3), hard_tokens=Every(5)),
    )
    assert not torch.equal(objective.corrupt(rows).positions, plain.corrupt(rows).positions)
    with eval_mode(objective):
        assert torch.equal(objective.corrupt(rows).positions, plain.corrupt(rows).positions)


def test_the_model_comes_from_a_folder_is_not_trained_and_in_no_checkpoint(tmp_path: Path) -> None:
    tokenizer, judge = tiny.make_tokenizer(), tiny.make_masked_lm(seed=7)
    judge.model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    masking = {"rate": 0.3, "hard_for": str(tmp_path), "hard_below": 0.002}
    config = decode(ObjectiveConfig, {"name": "mlm", "masking": masking}, "x")
    objective = MaskedLM.from_config(config, tokenizer, tiny.VOCAB_SIZE)
    hard, rows = objective.hard_tokens, make_rows()
    assert hard is not None
    model = tiny.make_masked_lm()
    objective.attach(model)
    batch = objective.corrupt(rows)
    assert torch.equal(objective.hard_tokens(rows), HardTokens(judge, 0.002)(rows))  # type: ignore[misc]
    objective(model, batch).terms["mlm"].backward()
    assert not [name for name in objective.state_dict() if "judge" in name] and not list(hard.parameters())
    assert hard.digest() == HardTokens(judge).digest() != HardTokens(model).digest()


@pytest.mark.parametrize("unit", ["word", "span"])
def test_words_and_spans_are_not_cut(unit: str) -> None:
    masking = tiny.make_masking(rate=0.3)
    masking.config = replace(masking.config, unit=unit)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=rf"hard_for chooses single tokens, and objective\.masking\.unit={unit}: set"):
        MaskedLM(masking, hard_tokens=Every(2))


def test_a_model_that_is_not_there_is_named(tmp_path: Path) -> None:
    config = decode(ObjectiveConfig, {"name": "mlm", "masking": {"hard_for": str(tmp_path / "none")}}, "x")
    with pytest.raises(ModelError, match="none"):
        MaskedLM.from_config(config, tiny.make_tokenizer(), tiny.VOCAB_SIZE)
