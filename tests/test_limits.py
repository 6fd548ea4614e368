"""Settings that do nothing in the configuration they are part of."""

from __future__ import annotations

from pathlib import Path

import pytest

from trueneg.config.codec import override, save_config
from trueneg.config.options import FinetuneConfig, TaskConfig
from trueneg.config.presets import preset
from trueneg.config.validation import check_options_apply
from trueneg.errors import ConfigError
from trueneg.objectives import with_objective
from trueneg.runs.pretraining import configure

CONTINUED = "model.start_from=bert"


@pytest.mark.parametrize(
    ("objective", "settings", "name", "remedy"),
    [
        ("electra", ["model.generator_from=runs/other"], "model.generator_from", "without a checkpoint to continue"),
        ("electra", ["extend_vocabulary=true"], "model.extend_vocabulary", "name one (--from)"),
        ("mlm", [CONTINUED, "model.generator_from=runs/other"], "model.generator_from", "--objective electra"),
        ("mlm", ["discriminator_weight=10"], "objective.discriminator_weight", "--objective electra"),
        ("mlm", [CONTINUED, "model.num_layers=7"], "model.num_layers", "has its own sizes"),
        ("electra", [CONTINUED, "hidden_size=32"], "model.hidden_size", "has its own sizes"),
        ("electra", ["correction.use=set"], "objective.correction.use", "--hard-correction"),
        ("mlm", ["denominator=kept"], "objective.correction.denominator", "--hard-correction"),
        ("cline", ["forms=lemma"], "objective.correction.forms", "--hard-correction"),
        (
            "mlm",
            ["correction.detector=lexical", "correction.discriminator=soft"],
            "objective.correction.discriminator",
            "--objective electra",
        ),
        ("mlm", ["regularization.weight=1"], "objective.regularization.weight", "--soft-regularization"),
        ("mlm", ["level=sentence", "regularization.variant=soft"], "objective.regularization.variant", "token"),
        (
            "electra",
            ["level=token", "direction=original-predicted"],
            "objective.regularization.direction",
            "sentence",
        ),
        ("mlm", ["cline.guard=lexical"], "objective.cline.guard", "--objective cline"),
        ("electra", ["senses=all"], "objective.cline.views.senses", "--objective cline"),
        ("cline", ["guard_floor=0.1"], "objective.cline.guard_floor", "without a guard"),
        ("mlm", ["preset=mine"], "preset", "where the command takes one"),
        ("mlm", ["objective.temperature=3"], "objective.temperature", "objective.prediction=sampled"),
        ("electra", ["prediction=argmax", "objective.temperature=3"], "objective.temperature", "prediction=sampled"),
        ("mlm", ["optimizer.decay_share=0.5"], "optimizer.decay_share", "optimizer.schedule=wsd"),
        ("mlm", ["schedule=constant", "final_share=0.5"], "optimizer.final_share", "another optimizer.schedule"),
        ("mlm", ["unit=word", "max_span=3"], "objective.masking.max_span", "objective.masking.unit=span"),
        ("mlm", ["architecture=bert", "embedding_size=16"], "model.embedding_size", "leave it out"),
        ("electra", ["architecture=bert", "generator_width=0.5"], "model.generator_width", "leave it out"),
        (
            "electra",
            [CONTINUED, "model.generator_from=runs/b", "model.generator_depth=0.5"],
            "model.generator_depth",
            "model.generator_from",
        ),
        ("electra", ["correction.detector=ema", "forms=lemma"], "objective.correction.forms", "lexical"),
        ("mlm", ["correction.wordnet=some/wordnet"], "objective.correction.wordnet", "--hard-correction"),
        ("cline", ["cline.contrast=false", "pooling=mean"], "objective.cline.pooling", "contrast=false"),
        ("cline", ["cline.contrast=false", "cline.guard=lexical"], "objective.cline.guard", "contrast=false"),
        ("cline", ["cline.rtd=false", "rtd_weight=2"], "objective.cline.rtd_weight", "rtd=false"),
        ("cline", ["cline.variant=released", "cline.temperature=2"], "objective.cline.temperature", "variant=paper"),
        (
            "cline",
            ["cline.rtd=false", "cline.contrast=false", "synonym_share=0.2"],
            "objective.cline.views.synonym_share",
            "contrast",
        ),
        ("cline", ["negatives=random", "antonym_share=0.1"], "objective.cline.views.antonym_share", "negatives=random"),
    ],
)
def test_settings_that_do_nothing_are_refused(
    objective: str, settings: list[str], name: str, remedy: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        configure("electra-tiny", objective=objective, settings=settings)
    assert str(caught.value).startswith(f"{name} does nothing ") and remedy in str(caught.value)
    # A saved configuration says everything, and is taken as it is.
    saved = override(with_objective(preset("electra-tiny"), objective), settings)
    save_config(saved, tmp_path / "config.json")
    assert configure(config=tmp_path / "config.json", settings=["train.steps=7"]) == override(saved, ["train.steps=7"])


@pytest.mark.parametrize(
    ("objective", "settings"),
    [
        ("electra", ["model.start_from=runs/a", "model.generator_from=runs/b"]),
        ("electra", ["model.start_from=runs/a", "model.generator_width=0.25", "model.generator_depth=0.5"]),
        ("electra", ["correction.use=soft", "correction.detector=lexical", "correction.discriminator=soft"]),
        (
            "electra",
            [
                "regularization.weight=2",
                "level=token+sentence",
                "collapse_threshold=0.9",
                "sentence_stop_gradient=none",
            ],
        ),
        ("cline", ["cline.guard=lexical", "guard_floor=0.1", "correction.forms=lemma"]),
        (
            "mlm",
            ["correction.wordnet=some/wordnet", "correction.detector=fits", "model.num_layers=3", "model.dropout=0"],
        ),
        ("cline", ["correction.wordnet=some/wordnet", "cline.contrast=false", "views.antonym_share=0.1"]),
        ("cline", ["cline.variant=released", "cline.contrast=false", "cline.guard=lexical", "forms=lemma"]),
        ("mlm", ["correction.detector=calibrated.json", "correction.forms=lemma"]),
        (
            "mlm",
            [
                "objective.temperature=2",
                "prediction=sampled",
                "unit=span",
                "mean_span=2",
                "schedule=wsd",
                "decay_share=0.2",
            ],
        ),
        ("mlm", ["model.start_from=bert", "extend_vocabulary=true", "model.dropout=0"]),
    ],
)
def test_settings_that_do_something_are_taken(objective: str, settings: list[str]) -> None:
    wanted = override(with_objective(preset("electra-tiny"), objective), settings)
    assert configure("electra-tiny", objective=objective, settings=settings) == wanted


def test_a_generator_beside_the_checkpoint_has_its_own_sizes(tmp_path: Path) -> None:
    settings = [f"model.start_from={tmp_path}", "model.generator_depth=0.5"]
    configure("electra-tiny", settings=settings)
    (tmp_path / "hf" / "generator").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"^model.generator_depth does nothing .* beside the checkpoint"):
        configure("electra-tiny", settings=settings)


@pytest.mark.parametrize(
    ("task", "settings", "name", "remedy"),
    [
        ("mr", ["freelb.steps=2"], "freelb.steps", "--adversarial freelb"),
        ("mr", ["adversarial=freelb", "smart.weight=2"], "smart.weight", "--adversarial smart"),
        ("mr", ["valid_fraction=0.2"], "valid_fraction", "--select best"),
        ("mr", ["train.eval_every=5"], "train.eval_every", "--select best"),
        ("mr", ["select=best", "train.eval_every=5", "evals_per_epoch=2"], "evals_per_epoch", "train.eval_every"),
        ("mr", ["epochs=2", "train.steps=5"], "epochs", "train.steps"),
        ("mr", ["warmup_share=0.2", "warmup_steps=5"], "warmup_share", "optimizer.warmup_steps"),
        ("mr", ["task.max_answer=5"], "task.max_answer", "--task squad"),
        ("squad", ["task.null_threshold=5"], "task.null_threshold", "squad/v2.0"),
        ("mr", ["task.text_column=text"], "task.text_column", "--task classification"),
        ("mr", ["optimizer.decay_share=0.5"], "optimizer.decay_share", "optimizer.schedule=wsd"),
    ],
)
def test_settings_of_fine_tuning_that_do_nothing_are_refused(
    task: str, settings: list[str], name: str, remedy: str
) -> None:
    base = FinetuneConfig(task=TaskConfig(name=task))
    with pytest.raises(ConfigError) as caught:
        check_options_apply(override(base, settings), settings)
    assert str(caught.value).startswith(f"{name} does nothing ") and remedy in str(caught.value)


@pytest.mark.parametrize(
    ("task", "settings"),
    [
        ("mr", ["adversarial=freelb", "freelb.steps=2", "epochs=2", "optimizer.warmup_steps=5"]),
        ("mr", ["select=best", "valid_fraction=0.2", "evals_per_epoch=2", "warmup_share=0.2", "train.steps=9"]),
        ("squad/v2.0", ["task.null_threshold=5", "task.doc_stride=64", "select=best", "train.eval_every=5"]),
        ("regression", ["task.text_column=text", "task.label_column=score", "schedule=wsd", "decay_share=0.5"]),
    ],
)
def test_settings_of_fine_tuning_that_do_something_are_taken(task: str, settings: list[str]) -> None:
    check_options_apply(override(FinetuneConfig(task=TaskConfig(name=task)), settings), settings)
