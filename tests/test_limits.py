"""Settings that do nothing in the configuration they are part of."""

from __future__ import annotations

from pathlib import Path

import pytest

from trueneg.decoding import override, save_config
from trueneg.errors import ConfigError
from trueneg.presets import preset, with_objective
from trueneg.pretraining import configure

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
        ("electra", ["model.start_from=runs/a", "model.generator_from=runs/b", "model.generator_depth=0.5"]),
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
        ("mlm", ["correction.wordnet=some/wordnet", "model.num_layers=3", "model.dropout=0"]),
        ("mlm", ["model.start_from=bert", "extend_vocabulary=true", "model.dropout=0"]),
    ],
)
def test_settings_that_do_something_are_taken(objective: str, settings: list[str]) -> None:
    wanted = override(with_objective(preset("electra-tiny"), objective), settings)
    assert configure("electra-tiny", objective=objective, settings=settings) == wanted
