"""Presets: the papers' numbers, once more, and sizes that fit together."""

from __future__ import annotations

import json
from dataclasses import replace
from operator import attrgetter
from pathlib import Path

import pytest
from transformers import AutoModel

from tiny import make_config
from trueneg.config.batch_sizes import rows_of_step
from trueneg.config.codec import decode, encode, override
from trueneg.config.costs import cost_of
from trueneg.config.finetune_presets import FINETUNE_PRESETS, finetune_preset
from trueneg.config.objective_options import MaskingConfig
from trueneg.config.options import PretrainConfig
from trueneg.config.presets import CONTINUE, PRESETS, PUBLISHED, preset
from trueneg.config.stages import stages_of
from trueneg.errors import ConfigError
from trueneg.objectives import objective_kind, with_objective
from trueneg.runs.configuring import configure
from trueneg.runs.configuring_finetuning import configure_finetuning
from trueneg.tasks import task_class

# Clark et al. 2020, table 6; Devlin et al. 2019, sections 3 and A.2; Warner et al. 2024, table 4.
PAPERS = {
    #                  layers hidden heads  ffn  embed  gen. rate  learning  batch   steps   warm-up  length
    "electra-small": (12, 256, 4, 1024, 128, 1 / 4, 0.15, 5e-4, 128, 1_000_000, 10_000, 128),
    "electra-base": (12, 768, 12, 3072, 768, 1 / 3, 0.15, 2e-4, 256, 766_000, 10_000, 512),
    "electra-large": (24, 1024, 16, 4096, 1024, 1 / 4, 0.25, 2e-4, 2048, 400_000, 10_000, 512),
    "bert-base": (12, 768, 12, 3072, None, None, 0.15, 1e-4, 256, 1_000_000, 10_000, 512),
    "bert-large": (24, 1024, 16, 4096, None, None, 0.15, 1e-4, 256, 1_000_000, 10_000, 512),
    "modernbert-base": (22, 768, 12, 1152, None, None, 0.3, 8e-4, None, None, None, 1024),
}
OPTIMIZERS = dict.fromkeys(PAPERS, (0.01, 0.9, 0.999, 1e-6, "linear")) | {
    "modernbert-base": (1e-5 / 8e-4, 0.9, 0.98, 1e-6, "wsd")
}
"""Weight decay, beta 1, beta 2, epsilon, schedule."""


@pytest.mark.parametrize("name", PAPERS)
def test_numbers_of_the_papers(name: str) -> None:
    config = preset(name)
    sizes = ("num_layers", "hidden_size", "num_heads", "intermediate_size", "embedding_size", "generator_width")
    found = (
        *attrgetter(*sizes)(config.model),
        *(config.objective.masking.rate, config.optimizer.learning_rate, config.train.batch_size, config.train.steps),
        *(config.optimizer.warmup_steps, config.corpus.length),
    )
    assert all(paper in (None, ours) for ours, paper in zip(found, PAPERS[name], strict=True))
    assert attrgetter("weight_decay", "beta1", "beta2", "epsilon", "schedule")(config.optimizer) == OPTIMIZERS[name]


# Zhang et al. 2023, section 4.1 and footnote 8; Wang et al. 2021, section 4.1 and Table 7.
RUNS = {
    #                         from                  objective  learning  batch    steps  length  warm-up  epsilon
    "tn-electra-small": ("", "electra", 5e-4, 128, 1_000_000, 128, 10_000, 1e-6),
    "tn-electra-small-512": ("", "electra", 5e-4, 128, 1_000_000, 512, 10_000, 1e-6),
    "tn-electra-base": ("google/electra-base-discriminator", "electra", 5e-5, 128, 200_000, 512, 10_000, 1e-6),
    "tn-bert-base": ("bert-base-uncased", "mlm", 5e-5, 128, 200_000, 512, 10_000, 1e-6),
    "tn-bert-large": ("bert-large-uncased", "mlm", 5e-5, 128, 200_000, 512, 10_000, 1e-6),
    "cline-bert-base": ("bert-base-uncased", "cline", 1e-4, 256, 30_000, 512, 500, 1e-8),
    "cline-roberta-base": ("roberta-base", "cline", 1e-4, 256, 30_000, 512, 500, 1e-8),
}


@pytest.mark.parametrize("name", RUNS)
def test_runs_of_the_papers(name: str) -> None:
    config = preset(name)
    optimizer, train = config.optimizer, config.train
    found = (config.model.start_from, config.objective.name, optimizer.learning_rate, train.batch_size, train.steps)
    assert (*found, config.corpus.length, optimizer.warmup_steps, optimizer.epsilon) == RUNS[name]
    assert attrgetter("weight_decay", "beta1", "beta2", "schedule")(optimizer) == (0.01, 0.9, 0.999, "linear")
    masking = config.objective.masking
    shares = (0.15, 0.85, 0.0) if config.objective.name == "electra" else (0.15, 0.8, 0.1)
    assert (masking.rate, masking.mask_share, masking.random_share) == shares
    if name.startswith("cline"):
        cline = config.objective.cline
        assert (cline.variant, cline.original, cline.weights) == ("paper", "clean", "learned")
        assert config.model.dropout == 0.1
        views = cline.views  # section 3.1, which asks for no more
        assert (views.preset, views.synonym_share, views.antonym_share, views.kinds) == ("paper", 0.4, 0.2, "mixed")
        assert views.synonym_kinds == "synonym+hypernym+inflection"
        assert (views.words, views.senses, views.random, views.multiword) == ("tagged", "all", "any", True)
        assert (views.agree, views.articles, views.min_count, views.min_ratio) == (False, False, 0, 0.0)
    else:
        assert config.objective.correction.forms == "retrieved"
    if config.objective.name == "electra":
        assert (config.objective.judged, config.objective.prediction) == ("argmax", "sampled")
    assert PRESETS.keys() == PUBLISHED.keys()


def test_another_checkpoint_than_the_presets_own() -> None:
    """The preset's generator goes with the preset's discriminator."""
    own = configure("tn-electra-base").model
    assert (own.start_from, own.generator_from) == (
        "google/electra-base-discriminator",
        "google/electra-base-generator",
    )
    other = configure("tn-electra-base", start_from="runs/mine").model
    assert (other.start_from, other.generator_from) == ("runs/mine", "")
    both = configure("tn-electra-base", start_from="a/disc", settings=["model.generator_from=a/gen"]).model
    assert (both.start_from, both.generator_from) == ("a/disc", "a/gen")
    with pytest.raises(
        ConfigError, match=r"model.num_layers does nothing unless model.start_from \(--from\) is not set"
    ):
        configure("tn-bert-base", settings=["model.num_layers=2"])


def test_masking_of_the_papers() -> None:
    electra, mlm = objective_kind("electra").defaults, objective_kind("mlm").defaults
    assert (electra.masking.mask_share, electra.masking.random_share) == (0.85, 0.0)
    assert (mlm.masking.mask_share, mlm.masking.random_share) == (0.8, 0.1)
    assert (electra.prediction, mlm.prediction) == ("sampled", "argmax")
    assert (electra.generator_weight, electra.discriminator_weight) == (1.0, 50.0)
    assert CONTINUE.optimizer.learning_rate == 5e-5


@pytest.mark.parametrize("name", PRESETS)
def test_preset_is_whole(name: str) -> None:
    config = preset(name)
    assert config.preset == name
    assert decode(PretrainConfig, json.loads(json.dumps(encode(config)))) == config
    # Ready to be used: no correction, no regularization, no corpus that is somebody's.
    assert not config.objective.correction.detector
    assert not config.objective.regularization.level
    assert not config.corpus.path


@pytest.mark.parametrize("name", PRESETS)
def test_sizes_fit_together(name: str) -> None:
    config = preset(name)
    model = config.model
    assert model.hidden_size % model.num_heads == 0
    assert config.corpus.length <= model.max_positions
    assert config.optimizer.warmup_steps < config.train.steps
    assert (config.objective.name == "electra") == (model.architecture == "electra")
    if model.architecture == "electra":
        heads, hidden = model.num_heads * model.generator_width, model.hidden_size * model.generator_width
        feed_forward = model.intermediate_size * model.generator_width
        for size in (heads, hidden, feed_forward):
            assert size == pytest.approx(round(size))
        assert round(hidden) % round(heads) == 0


def test_unknown_names() -> None:
    with pytest.raises(ConfigError, match="did you mean 'electra-small'"):
        preset("electra-smal")
    with pytest.raises(ConfigError, match="did you mean 'electra'"):
        with_objective(PretrainConfig(), "elektra")


def test_another_objective_brings_its_own_defaults_and_keeps_what_was_said() -> None:
    said = ["correction.detector=lexical", "level=token", "masking.rate=0.4", "masking.unit=span", "max_span=4"]
    config = override(preset("electra-mini"), said)
    changed = with_objective(config, "mlm")
    masking = MaskingConfig(rate=0.4, unit="span", max_span=4, mask_share=0.8, random_share=0.1)
    expected = replace(config.objective, name="mlm", prediction="argmax", masking=masking)
    assert changed == replace(config, objective=expected)
    assert with_objective(config, "electra") == config


def test_an_objective_named_by_a_setting_brings_its_own_defaults_too() -> None:
    assert configure("electra-mini", settings=["objective.name=mlm"]) == configure("electra-mini", objective="mlm")
    kept = configure("electra-mini", settings=["objective.name=mlm", "objective.prediction=sampled"])
    assert kept.objective.prediction == "sampled"


def test_the_papers_fine_tuning_of_electra_has_one_layer() -> None:
    assert finetune_preset("tn-electra", "glue/rte", "electra", 256).head == "linear"
    assert finetune_preset("tn-electra", "squad", "electra", 256, "squad").head == "transformers"
    paper = finetune_preset("electra-paper", "glue/rte", "electra", 256)
    assert replace(finetune_preset("tn-electra", "glue/rte", "electra", 256), head="transformers") == replace(
        paper, preset="tn-electra"
    )


@pytest.mark.parametrize(
    ("task", "epochs", "length", "is_swapped"),
    [
        ("glue/cola", 3, 128, False),
        ("glue/mrpc", 3, 128, True),
        ("glue/stsb", 10, 128, True),
        ("glue/rte", 10, 128, False),
        ("squad", 2, 512, False),
        ("squad/v2.0", 2, 512, False),
        ("classification", 3, 128, False),
        ("imdb", 3, 512, False),
        ("boolq", 3, 512, False),
        ("snli", 3, 128, False),
    ],
)
def test_electras_settings_by_task(task: str, epochs: float, length: int, is_swapped: bool) -> None:
    """Clark et al. 2020, appendix B, and ``configure_finetuning.py``."""
    for name in ("electra-paper", "electra-code"):
        config = finetune_preset(name, task, "bert", 768, task_class(task).preset_family)
        assert (config.epochs, config.task.length, config.task.swap_pairs) == (epochs, length, is_swapped)
        assert (config.train.batch_size, config.warmup_ratio, config.dropout) == (32, 0.1, 0.1)


@pytest.mark.parametrize(
    ("hidden_size", "paper", "code", "decay"), [(256, 3e-4, 1e-4, 0.8), (768, 1e-4, 1e-4, 0.8), (1024, 5e-5, 5e-5, 0.9)]
)
def test_electras_learning_rates_by_size(hidden_size: int, paper: float, code: float, decay: float) -> None:
    published, released = (
        finetune_preset(name, "glue/rte", "electra", hidden_size).optimizer
        for name in ("electra-paper", "electra-code")
    )
    assert (published.learning_rate, released.learning_rate) == (paper, code)
    assert published.layer_decay == released.layer_decay == decay
    assert (published.weight_decay, released.weight_decay) == (0.0, 0.01)
    assert (published.name, released.name) == ("adamw", "electra-code")


def test_the_preset_is_the_encoders_unless_one_is_named() -> None:
    assert finetune_preset("", "glue/rte", "electra", 256).preset == "electra-paper"
    assert finetune_preset("", "glue/rte", "modernbert", 768).preset == "bert"
    assert finetune_preset("electra-code", "glue/rte", "bert", 768).preset == "electra-code"
    with pytest.raises(ConfigError, match="unknown preset 'brt': did you mean 'bert'"):
        finetune_preset("brt", "glue/rte", "bert", 768)
    assert set(FINETUNE_PRESETS) == {"electra-paper", "electra-code", "tn-electra", "bert", "cline"}


def test_long_texts_are_read_whole_by_every_preset_and_cline_has_the_middle_rate() -> None:
    for name in FINETUNE_PRESETS:
        lengths = [finetune_preset(name, task, "roberta", 768).task.length for task in ("imdb", "boolq", "mr", "ag")]
        assert lengths == [512, 512, 128, 128]
    rates = (1e-5, 2e-5, 3e-5, 4e-5, 5e-5)  # section 4.3
    assert all(
        finetune_preset("cline", "imdb", "bert", n).optimizer.learning_rate == rates[2] for n in (256, 768, 1024)
    )


def test_settings_come_last(tmp_path: Path) -> None:
    AutoModel.from_config(make_config("electra")).save_pretrained(tmp_path)
    config = configure_finetuning(str(tmp_path), "glue/rte", settings=["epochs=1", "optimizer.layer_decay=0.5"])
    assert (config.preset, config.start_from, config.task.name) == ("electra-paper", str(tmp_path), "glue/rte")
    assert (config.epochs, config.optimizer.layer_decay, config.optimizer.learning_rate) == (1.0, 0.5, 3e-4)
    assert config == override(configure_finetuning(str(tmp_path), "glue/rte"), ["epochs=1", "layer_decay=0.5"])


@pytest.mark.parametrize(("start_from", "task"), [("", "glue/rte"), ("x", "")])
def test_a_checkpoint_and_a_task_are_needed(start_from: str, task: str) -> None:
    with pytest.raises(ConfigError, match="give a checkpoint and a --task"):
        configure_finetuning(start_from, task)


def test_a_preset_besides_a_configuration_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="leave --preset bert out"):
        configure_finetuning(preset="bert", config=tmp_path)


def test_stages_of_modernbert_and_mmbert_have_the_tokens_of_their_configurations() -> None:
    """Recounted step by step, in billions: max_duration and batch_size_warmup_tokens of the published files."""
    for name, length, tokens, rising in (
        ("modernbert-base-staged", (1024, 8192, 8192), (1719, 250, 50), 50),
        ("mmbert-base-staged", (1024, 8192, 8192), (2000, 600, 100), 60),
    ):
        stages = stages_of(preset(name))
        assert [stage.config.corpus.length for stage in stages] == [*length]
        train = stages[0].config.train
        first = [rows_of_step(train, step) for step in range(train.batch_warmup_steps)]
        assert (first[0], first[-1]) == (train.batch_warmup_from, 4600)
        assert sum(first) * 1024 / 1e9 == pytest.approx(rising, rel=1e-3)
        counted = [sum(first) + 4608 * (len(stages[0].steps) - len(first))]
        counted += [stage.config.train.batch_size * len(stage.steps) for stage in stages[1:]]
        assert [rows * size / 1e9 for rows, size in zip(counted, length, strict=True)] == pytest.approx(
            tokens, rel=1e-3
        )
        assert cost_of(preset(name)).tokens == sum(rows * size for rows, size in zip(counted, length, strict=True))
        warm = sum(first[: stages[0].config.optimizer.warmup_steps]) * 1024 / 1e9
        assert warm == pytest.approx(3, rel=1e-3)
        assert stages[2].config.optimizer.schedule == "1-sqrt"
    masked = [stage.config.objective.masking.rate for stage in stages_of(preset("mmbert-base-staged"))]
    assert masked == [0.3, 0.15, 0.05]
    bases = [stage.config.model.rope_theta for stage in stages_of(preset("modernbert-base-staged"))]
    assert bases == [10_000, 160_000, 160_000]
