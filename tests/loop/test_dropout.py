"""Dropout belongs to every training step of a continued checkpoint, and to no evaluation."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_runs import WORDNET, check_resumes, cut_run, final_tensors, make_config
from torch import nn

from trueneg.config.codec import override
from trueneg.config.options import PretrainConfig
from trueneg.detectors.ema import EmaDetector
from trueneg.objectives import with_objective
from trueneg.runs.pretraining import pretrain
from trueneg.training import loop
from trueneg.training.step import Run

KINDS = {
    "mlm": ("mlm", ()),
    "mlm with its own average": ("mlm", ("correction.detector=ema[momentum=0.5]@0.1",)),
    "electra": ("electra", ()),
    "cline": ("cline", ()),
}


@pytest.fixture(scope="module")
def checkpoints(tagged: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What is continued, by objective: each with its own heads."""
    folder = tmp_path_factory.mktemp("checkpoints")
    for kind in ("mlm", "electra", "cline"):
        pretrain(override(base_config(kind, tagged), ["train.steps=4"]), folder / kind, quiet=True)
    return {kind: folder / kind / "hf" for kind in ("mlm", "electra", "cline")}


def base_config(kind: str, corpus: Path) -> PretrainConfig:
    if kind != "cline":
        return make_config(corpus, kind)
    config = with_objective(make_config(corpus, "mlm"), "cline")
    return override(config, ["cline.views.senses=all", f"correction.wordnet={WORDNET}"])


def continued(kind: str, corpus: Path, checkpoints: dict[str, Path], *settings: str) -> PretrainConfig:
    base, own = KINDS[kind]
    source = [f"model.start_from={checkpoints[base]}"]
    if base == "electra":
        source.append(f"model.generator_from={checkpoints[base] / 'generator'}")
    return override(base_config(base, corpus), [*own, *source, "train.steps=12", "model.dropout=0.3", *settings])


@pytest.mark.parametrize("kind", KINDS)
def test_every_module_trains_at_every_step_but_for_frozen_teachers(
    kind: str, tagged: Path, checkpoints: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[set[bool]] = []
    taught: list[bool] = []
    original = loop.train_step

    def watched(run: Run, micro_batches: object) -> object:
        teachers: set[nn.Module] = set()
        for part in run.module.modules():
            if isinstance(part, EmaDetector) and part.teacher is not None:
                teachers |= set(part.teacher.modules())
        taught.extend(part.training for part in teachers)
        seen.append({part.training for part in run.module.modules() if part not in teachers})
        return original(run, micro_batches)  # type: ignore[arg-type]

    monkeypatch.setattr(loop, "train_step", watched)
    config = continued(kind, tagged, checkpoints, "train.eval_every=5", "train.save_every=4")
    cut_run(config, tmp_path / "run", 7)
    pretrain(config, tmp_path / "run", resume=True, quiet=True)
    assert len(seen) > 12
    assert seen == [{True}] * len(seen)
    assert not any(taught)
    assert bool(taught) == ("average" in kind)


@pytest.mark.parametrize("kind", KINDS)
def test_evaluations_do_not_bend_the_curve_of_a_continued_checkpoint(
    kind: str, tagged: Path, checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    for every in (0, 3):
        config = continued(kind, tagged, checkpoints, f"train.eval_every={every}")
        pretrain(config, tmp_path / str(every), quiet=True)
    ours, others = final_tensors(tmp_path / "0"), final_tensors(tmp_path / "3")
    assert [name for name in ours if not ours[name].equal(others[name])] == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_continued_checkpoint_killed_after_an_evaluation_ends_as_the_uninterrupted_one(
    kind: str, tagged: Path, checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    check_resumes(continued(kind, tagged, checkpoints, "train.eval_every=5", "train.save_every=4"), tmp_path, 9)


@pytest.mark.parametrize("is_continued", [False, True])
def test_dropout_has_an_effect_without_held_out_text(
    is_continued: bool, tagged: Path, checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    source = [f"model.start_from={checkpoints['mlm']}"] if is_continued else []
    for dropout in ("0.0", "0.3"):
        config = make_config(tagged, "mlm", *source, f"model.dropout={dropout}", "train.steps=3", "corpus.eval_rows=0")
        pretrain(config, tmp_path / dropout, quiet=True)
    ours, others = final_tensors(tmp_path / "0.0"), final_tensors(tmp_path / "0.3")
    assert any(not ours[name].equal(others[name]) for name in ours)
