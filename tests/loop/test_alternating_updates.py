"""RTD as DeBERTaV3 trains it: the generator's update, then the discriminator's, over disentangled embeddings."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny_runs import (
    WORDNET,
    MakeConfig,
    assert_same_readings,
    check_resumes,
    make_config,
    readings,
    together,
    weight_distance,
)
from torch import nn
from torch.nn import functional
from transformers import AutoModel

import tiny
from trueneg.config.codec import override
from trueneg.config.options import ModelConfig, OptimizerConfig, PretrainConfig, TrainConfig
from trueneg.errors import ConfigError, TruenegWarning
from trueneg.models.electra import ElectraPair
from trueneg.objectives import objective_kind, with_objective
from trueneg.objectives.mlm import MaskedLM
from trueneg.objectives.rtd import ReplacedTokenDetection
from trueneg.runs.configuring import configure
from trueneg.runs.estimate import estimate
from trueneg.runs.pretraining import pretrain
from trueneg.training.step import Run, train_step

GDES = ("model.embedding_sharing=gdes", "model.dropout=0")
V3 = (*GDES, "objective.updates=alternating")
TOLERANCE = 2e-6
"""As of tests/loop/test_equivalence.py."""


def make_pair() -> ElectraPair:
    made = tiny.make_electra()
    generator, discriminator = made.generator, made.discriminator
    generator.model.base_model.embeddings = copy.deepcopy(discriminator.model.base_model.embeddings)
    generator.model.tie_weights()
    pair = ElectraPair(generator, discriminator, "gdes", is_new=True)
    for part in pair.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    return pair


def test_a_step_is_two_steps_of_two_optimizers() -> None:
    """Of torch, by hand: the MLM loss, clipped, moves the generator; then the RTD loss, clipped, the discriminator.

    He et al. 2023, section 3.3: the discriminator reads what the generator filled in before its update, through
    embeddings that have it.
    """
    ours, theirs = make_pair(), make_pair()
    config = OptimizerConfig(learning_rate=0.01, schedule="constant", max_grad_norm=0.5, weight_decay=0.1)
    objective = ReplacedTokenDetection(MaskedLM(tiny.make_masking(), prediction="sampled"), 1.0, 50.0, "alternating")
    run = Run.new(ours, objective, config, TrainConfig(steps=5, batch_size=2), torch.device("cpu"))
    masked_lm = MaskedLM(tiny.make_masking(), prediction="sampled")

    def adamw(module: nn.Module) -> torch.optim.AdamW:
        decays = [one for one in module.parameters() if one.ndim >= 2]
        others = [one for one in module.parameters() if one.ndim < 2]
        groups = [{"params": decays, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=0.01, eps=config.epsilon)

    generator, discriminator = adamw(theirs.generator), adamw(theirs.discriminator)
    theirs.train()
    for step in range(3):
        rows = tiny.make_rows([[14], [9]], 16, seed=step)
        norm = train_step(run, [rows])

        batch = masked_lm.corrupt(rows)
        prediction = masked_lm.predict(theirs.generator, batch)
        text = batch.rows.input_ids.clone()
        for row in range(len(text)):
            for slot, place in enumerate(batch.positions[row].tolist()):
                if batch.is_masked[row, slot]:
                    text[row, place] = prediction.predicted[row, slot]
        hidden = theirs.generator.encode(batch.input_ids, batch.rows)
        at = torch.stack([one[places] for one, places in zip(hidden, batch.positions, strict=True)])
        losses = functional.cross_entropy(
            theirs.generator.logits(at).flatten(0, 1), batch.gold.flatten(), reduction="none"
        )
        generator.zero_grad()
        (losses * batch.is_masked.flatten()).sum().div(batch.is_masked.sum()).backward()
        norms = [nn.utils.clip_grad_norm_(theirs.generator.parameters(), 0.5)]
        generator.step()

        discriminator.zero_grad()
        is_text = rows.segments > 0
        logits = theirs.discriminator.replaced_logits(theirs.discriminator.encode(text, rows))[is_text]
        replaced = (text != rows.input_ids)[is_text].float()
        assert 0 < replaced.sum() < len(replaced)
        (50 * functional.binary_cross_entropy_with_logits(logits, replaced)).backward()
        norms.append(nn.utils.clip_grad_norm_(theirs.discriminator.parameters(), 0.5))
        discriminator.step()
        torch.testing.assert_close(norm, torch.stack(norms).norm())
    for (name, one), (_, other) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("settings", [GDES, V3, ("model.embedding_sharing=none",)])
def test_a_run_that_is_cut_ends_as_the_uninterrupted_one(
    settings: tuple[str, ...], config_of: MakeConfig, tmp_path: Path
) -> None:
    run = check_resumes(config_of("electra", *settings, "train.steps=14", "train.save_every=5"), tmp_path, 3, 8)
    records = readings(run)
    assert all({"loss/mlm", "loss/rtd", "detection_recall"} <= one.keys() for one in records if one["kind"] == "train")
    assert all({"loss/mlm", "loss/rtd"} <= one.keys() for one in records if one["kind"] == "eval")


@pytest.mark.parametrize("name", ["stableadamw", "muon"])
def test_with_every_optimizer_and_an_average(name: str, config_of: MakeConfig, tmp_path: Path) -> None:
    others = (f"optimizer.name={name}", "train.ema=0.9", "layer_decay=0.9", "train.steps=12", "train.save_every=5")
    check_resumes(config_of("electra", *V3, *others), tmp_path, 7)


def test_micro_batches_and_processes_are_one_batch(config_of: MakeConfig, tmp_path: Path) -> None:
    ten = ("train.steps=10", "train.eval_every=5", "train.log_every=2", "objective.prediction=argmax")
    pretrain(config_of("electra", *V3, *ten), tmp_path / "one", quiet=True)
    pretrain(config_of("electra", *V3, *ten, "train.accumulation=4"), tmp_path / "four", quiet=True)
    told = together(config_of("electra", *V3, *ten, "train.accumulation=2"), tmp_path / "both", 2)
    assert told == [{"reason": "finished", "step": 10}] * 2
    for other in ("four", "both"):
        assert weight_distance(tmp_path / "one", tmp_path / other) < TOLERANCE, other
        assert_same_readings(tmp_path / "one", tmp_path / other)


def test_the_ways_to_train_differ(config_of: MakeConfig, tmp_path: Path) -> None:
    found = set()
    for number, settings in enumerate(((), GDES, V3, ("model.embedding_sharing=none", "model.dropout=0"))):
        pretrain(config_of("electra", *settings, "train.steps=6"), tmp_path / str(number), quiet=True)
        found.add((tmp_path / str(number) / "hf" / "model.safetensors").read_bytes())
        AutoModel.from_pretrained(tmp_path / str(number) / "hf")
    assert len(found) == 4


def test_a_frozen_discriminator_keeps_its_embeddings(config_of: MakeConfig, tmp_path: Path) -> None:
    """Those of the generator, which are part of them, stay too."""
    pretrain(config_of("electra", *GDES, "train.steps=3"), tmp_path / "source", quiet=True)
    saved = ("train.save_every=3", "train.keep=9", "train.steps=9")
    start = f"model.start_from={tmp_path / 'source'}"
    pretrain(config_of("electra", *V3, *saved, start, "frozen_steps=6"), tmp_path / "run", quiet=True)
    of_step = [
        load_file(tmp_path / "run" / "checkpoints" / f"step-{step:09d}" / "model.safetensors") for step in (3, 6, 9)
    ]
    tables = [name for name in of_step[0] if ".embeddings." in name and name.endswith("embeddings.weight")]
    assert len(tables) == 6
    assert all(torch.equal(of_step[0][name], of_step[1][name]) for name in tables)
    assert any(not torch.equal(of_step[1][name], of_step[2][name]) for name in tables)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("objective.updates=alternating",), "model.embedding_sharing=shared: both parts change the embeddings"),
        ((*V3, "regularization.level=token"), "objective.regularization, whose terms are of both parts"),
        ((*V3, "train.cuda_graphs=true"), "train.cuda_graphs, which hold one pass"),
    ],
)
def test_what_does_not_go_with_alternation(
    settings: tuple[str, ...], message: str, config_of: MakeConfig, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=f"objective.updates=alternating does not go with {message}"):
        pretrain(config_of("electra", *settings), tmp_path / "run", quiet=True)


def test_settings_are_refused_before(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"objective.updates does nothing unless model.embedding_sharing is none or gd"
    ):
        configure("electra-tiny", settings=["updates=alternating"])
    with pytest.raises(ConfigError, match=r"model.embedding_sharing does nothing unless objective.name"):
        configure("electra-tiny", objective="mlm", settings=["embedding_sharing=gdes"])
    with pytest.raises(ConfigError, match=r"unknown value of model.embedding_sharing 'gds': did you mean 'gdes'"):
        configure("electra-tiny", settings=["embedding_sharing=gds"])


def test_the_estimate_counts_the_second_set_of_embeddings(config_of: MakeConfig) -> None:
    size = [estimate(config_of("electra", *one), vocab_size=2000).weights for one in ((), GDES, V3)]
    assert size[0] + 4 * 2000 * 32 <= size[1] == size[2]


@pytest.mark.filterwarnings("ignore::trueneg.errors.TruenegWarning")  # of heads that are new
def test_contrast_goes_on_with_the_discriminator(config_of: MakeConfig, tagged: Path, tmp_path: Path) -> None:
    """RTD, then contrast: the encoder that CLINE begins with is the discriminator, its tables whole."""
    rtd = config_of("electra", *V3, "train.steps=4")
    pretrain(rtd, tmp_path / "rtd", quiet=True)
    second = continued(tagged, tmp_path / "rtd", "learning_rate=0", "train.steps=1")
    with pytest.warns(TruenegWarning, match="lacks .* weights of ElectraForMaskedLM"):
        pretrain(second, tmp_path / "still", quiet=True)
    before, after = (load_file(tmp_path / name / "hf" / "model.safetensors") for name in ("rtd", "still"))
    encoder = [name for name in before if name.startswith("electra.")]
    assert len(encoder) > 30
    assert all(torch.equal(before[name], after[name]) for name in encoder)
    # It resumes without what it continued, whose part is chosen once.
    whole = continued(tagged, tmp_path / "rtd", "train.steps=6", "train.save_every=2")
    run = check_resumes(whole, tmp_path / "cut", 3)
    assert [one for one in readings(run) if one["kind"] == "train"][-1]["loss/contrast"] > 0


def continued(tagged: Path, source: Path, *settings: str) -> PretrainConfig:
    contrast = ("model.part=discriminator", "pooling=mean", "similarity=cosine", "views.senses=all")
    given = (f"model.start_from={source}", f"correction.wordnet={WORDNET}", *contrast, *settings)
    return override(with_objective(make_config(tagged, "mlm"), "cline"), given)


def test_an_alternating_objective_is_not_for_trainers_loop() -> None:
    assert ReplacedTokenDetection(MaskedLM(tiny.make_masking()), updates="alternating").alternates
    assert not ReplacedTokenDetection(MaskedLM(tiny.make_masking())).alternates
    assert not MaskedLM(tiny.make_masking()).alternates
    assert objective_kind("electra").defaults.updates == "joint"
    assert ModelConfig().embedding_sharing == "shared"
