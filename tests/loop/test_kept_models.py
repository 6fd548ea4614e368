"""``train.keep_at`` and ``keep_every``: models of given steps of a run, kept whatever happens to it, read like any."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny_runs import WORDNET, MakeConfig, cut_run, make_config, readings
from transformers import AutoModel

import tiny
from trueneg.config.codec import override
from trueneg.config.options import TrainConfig
from trueneg.config.validation import steps_to_keep, validate
from trueneg.corpus.build import build_corpus
from trueneg.detectors.ema import EmaDetector
from trueneg.errors import CheckpointError, ConfigError, ModelError, TruenegWarning
from trueneg.evaluation.masked_lm.held_out import evaluate_table
from trueneg.objectives import with_objective
from trueneg.runs.configuring_finetuning import configure_finetuning
from trueneg.runs.pretraining import pretrain
from trueneg.tokenizer import save_tokenizer

KEEP = "train.keep_at=0.25,0.5,1"
"""Steps 6, 12 and 24."""


def kept(run: Path) -> dict[int, bytes]:
    """Weights of each model that a run kept."""
    found = sorted((run / "kept").glob("step-*"))
    return {int(path.name.removeprefix("step-")): (path / "model.safetensors").read_bytes() for path in found}


@pytest.mark.parametrize("objective", ["mlm", "electra", "cline"])
def test_the_models_of_the_shares_are_kept(objective: str, corpus: Path, tagged: Path, tmp_path: Path) -> None:
    kind = "electra" if objective == "electra" else "mlm"
    folder = tagged if objective == "cline" else corpus
    settings = (KEEP, f"correction.wordnet={WORDNET}", "views.senses=all")
    config = with_objective(make_config(folder, kind, *settings), objective)
    short = override(config, ["train.keep_at=", "train.save_every=12", "train.keep=9"])
    pretrain(config, tmp_path / "run", quiet=True)
    pretrain(short, tmp_path / "other", quiet=True)
    run = tmp_path / "run"
    assert list(kept(run)) == [6, 12, 24]
    assert kept(run)[24] == (run / "hf" / "model.safetensors").read_bytes()
    assert not list((run / "kept").rglob("*optimizer*"))
    # The weights of step 12 are those of the checkpoint of step 12 of a run that kept nothing.
    of_step = load_file(run / "kept" / "step-000000012" / "model.safetensors")
    saved = load_file(tmp_path / "other" / "checkpoints" / "step-000000012" / "model.safetensors")
    values = list(saved.values())
    for tensor in of_step.values():
        assert any(tensor.shape == other.shape and torch.equal(tensor, other) for other in values)
    AutoModel.from_pretrained(run / "kept" / "step-000000006")
    records = [record for record in readings(run) if record["kind"] == "kept"]
    assert [(record["step"], record["share"]) for record in records] == [(6, 0.25), (12, 0.5), (24, 1.0)]
    assert [r for r in readings(run) if r["kind"] != "kept"] == [
        r for r in readings(tmp_path / "other") if r["kind"] != "kept"
    ]


def test_a_killed_run_keeps_what_it_had_and_goes_on_the_same(config_of: MakeConfig, tmp_path: Path) -> None:
    config = config_of("electra", KEEP, "train.save_every=5")
    pretrain(config, tmp_path / "whole", quiet=True)
    cut_run(config, tmp_path / "cut", 9, 14)
    assert list(kept(tmp_path / "cut")) == [6, 12]
    pretrain(config, tmp_path / "cut", resume=True, quiet=True)
    assert kept(tmp_path / "cut") == kept(tmp_path / "whole")
    assert readings(tmp_path / "cut") == readings(tmp_path / "whole")


def test_what_was_not_kept_in_time_is_named(config_of: MakeConfig, tmp_path: Path) -> None:
    cut_run(config_of("mlm", "train.save_every=5"), tmp_path / "run", 14)
    with pytest.warns(TruenegWarning, match=r"train.keep_at: the run is at step 10 and did not keep 6: only a new run"):
        pretrain(config_of("mlm", KEEP, "train.save_every=5"), tmp_path / "run", resume=True, quiet=True)
    assert list(kept(tmp_path / "run")) == [12, 24]


def test_a_finished_run_is_not_asked_for_other_steps(config_of: MakeConfig, tmp_path: Path) -> None:
    run = tmp_path / "run"
    pretrain(config_of("mlm", KEEP), run, quiet=True)
    before = (run / "config.json").read_bytes()
    for other, lost in (("keep_at=0.25,0.75,1", "18"), ("keep_every=10", "10, 20")):
        said = rf"train.{other.partition('=')[0]}: '.*run' has finished and kept no {lost}, as .* another --out"
        with pytest.raises(CheckpointError, match=said):
            pretrain(config_of("mlm", f"train.{other}"), run, resume=True, quiet=True)
    assert (run / "config.json").read_bytes() == before
    for fewer in ("train.keep_at=0.25", "train.keep_at="):
        assert pretrain(config_of("mlm", fewer), run, resume=True, quiet=True).reason == "finished"
    shutil.rmtree(run / "kept")  # to make room: the same command goes on saying that it has finished
    with pytest.warns(TruenegWarning, match="did not keep 6"):
        pretrain(config_of("mlm", "train.keep_at=0.25"), run, resume=True, quiet=True)


def test_a_full_disk_is_named(config_of: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trueneg.runs import stage_training

    save: Callable[..., None] = stage_training.save_run_model

    def fail(*arguments: object) -> None:
        if "kept" in str(arguments[-1]):
            raise OSError(errno.ENOSPC, "No space left on device")
        save(*arguments)

    run = tmp_path / "run"
    config = config_of("mlm", KEEP, "train.save_every=5")
    with monkeypatch.context() as patch:
        patch.setattr(stage_training, "save_run_model", fail)
        with pytest.raises(CheckpointError, match=r"kept/step-0+6': the disk is full; checkpoints are untouched: make"):
            pretrain(config, run, quiet=True)
    assert kept(run) == {}
    pretrain(config, run, resume=True, quiet=True)
    assert list(kept(run)) == [6, 12, 24]


def test_a_corpus_of_another_tokenizer_is_refused_over_training_too(
    config_of: MakeConfig, corpus: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    pretrain(config_of("mlm", "train.keep_at=0.5", "train.save_every=20"), run, quiet=True)
    (tmp_path / "text.txt").write_text("\n\n".join(f"word{number} word{number + 1}" for number in range(99)))
    save_tokenizer(tiny.make_tokenizer(), tmp_path / "other")
    build_corpus([str(tmp_path / "text.txt")], tmp_path / "other", tmp_path / "corpus", valid=0.5)
    for kept_one in ("kept", "checkpoints"):
        with pytest.raises(ModelError, match="another tokenizer than that of"):
            evaluate_table([str(run)], corpora=[tmp_path / "corpus"], detectors=["ema"], over_training=True, num_rows=4)
        shutil.rmtree(run / kept_one)


def test_a_detector_copies_a_model_that_is_on_its_device(
    config_of: MakeConfig, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, seen = tmp_path / "run", []
    pretrain(config_of("mlm", "train.steps=2"), run, quiet=True)

    def attach(detector: EmaDetector, model: torch.nn.Module) -> None:
        seen.append(next(model.parameters()).device.type)
        raise KeyboardInterrupt

    monkeypatch.setattr(EmaDetector, "attach", attach)
    monkeypatch.setattr("trueneg.evaluation.masked_lm.held_out.choose_device", lambda wanted: torch.device("meta"))
    with pytest.raises(KeyboardInterrupt):
        evaluate_table([str(run)], corpora=[corpus], detectors=["ema"], num_rows=4)
    assert seen == ["meta"]


def test_kept_models_are_evaluated_over_training(config_of: MakeConfig, corpus: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    pretrain(config_of("electra", KEEP, "train.save_every=10"), run, quiet=True)
    at = {"corpora": [corpus], "detectors": ["ema@0.01"], "num_rows": 8}
    found = evaluate_table([str(run)], over_training=True, **at).records
    assert [(record.step, record.fraction) for record in found] == [
        (6, 0.25), (12, 0.5), (20, 20 / 24), (24, 1.0),
    ]  # fmt: skip
    as_the_run = ["masking.mask_share=0.85", "masking.random_share=0"]
    one = str(run / "kept" / "step-000000006")
    alone = evaluate_table([one], length=24, settings=as_the_run, **at).records[0]
    assert alone.readings["gold_loss"] == pytest.approx(found[0].readings["gold_loss"], rel=1e-6)
    assert len({record.readings["gold_loss"] for record in found}) == 4


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("0.5,half", r"train.keep_at must be numbers with commas between them, as 0.25,0.5,1, got 'half'"),
        ("0.5,,1", r"must be numbers with commas between them, as 0.25,0.5,1, got ''"),
        ("0,0.5", r"train.keep_at must be shares of the steps in \(0, 1\], got 0"),
        ("0.5,1.5", r"must be shares of the steps in \(0, 1\], got 1.5"),
        ("0.5,nan", r"must be shares of the steps in \(0, 1\], got nan"),
        ("0.5,0.25", r"train.keep_at must rise: 0.25 comes after 0.5"),
        ("0.5,0.5", r"train.keep_at must rise: 0.5 comes after 0.5"),
        ("0.5,0.501", r"0.5 and 0.501 of 24 steps are both step 12: leave one out"),
    ],
)
def test_other_shares_are_refused(config_of: MakeConfig, value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        validate(config_of("mlm", f"train.keep_at={value}"))


def test_every_so_many_steps_besides_the_shares(config_of: MakeConfig, tmp_path: Path) -> None:
    assert steps_to_keep(TrainConfig(steps=24, keep_at="0.25,1", keep_every=10)) == {
        6: 0.25, 10: 10 / 24, 20: 20 / 24, 24: 1.0,
    }  # fmt: skip
    cut_run(config_of("mlm", "train.keep_every=10", "train.save_every=5"), tmp_path / "run", 14)
    assert list(kept(tmp_path / "run")) == [10]
    longer = config_of("mlm", "train.keep_every=4", "train.save_every=5")
    with pytest.warns(TruenegWarning, match=r"train.keep_every: the run is at step 10 and did not keep 4, 8: only"):
        pretrain(longer, tmp_path / "run", resume=True, quiet=True)
    assert list(kept(tmp_path / "run")) == [10, 12, 16, 20, 24]


def test_a_share_below_one_step_is_the_first() -> None:
    assert steps_to_keep(TrainConfig(steps=3, keep_at="0.0625,1")) == {1: 0.0625, 3: 1.0}


def test_fine_tuning_has_no_use_for_it(tmp_path: Path, config_of: MakeConfig) -> None:
    pretrain(config_of("mlm", "train.steps=1"), tmp_path / "run", quiet=True)
    for setting in ("train.keep_at=0.5", "train.keep_every=5", "train.ema=0.9"):
        with pytest.raises(
            ConfigError, match=rf"{setting.partition('=')[0]} does nothing in fine-tuning: leave it out"
        ):
            configure_finetuning(str(tmp_path / "run"), "glue/rte", settings=[setting])
