"""Rules of options: bounds, what an option needs, what may change on resume, old names. All read from the fields."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from trueneg.config.codec import decode, describe, encode, flatten, load_config, override, save_config
from trueneg.config.fields import Rule, names_where, parse_term, rules
from trueneg.config.finetune_options import FinetuneConfig, TaskConfig
from trueneg.config.objective_options import ViewsConfig
from trueneg.config.options import PretrainConfig
from trueneg.config.presets import preset
from trueneg.config.validation import check_options_apply, validate
from trueneg.errors import ConfigError, TruenegDeprecationWarning
from trueneg.objectives import with_objective
from trueneg.runs.configuring import configure

KINDS = (PretrainConfig, FinetuneConfig)
UNBOUNDED = {"train.seed", "task.null_threshold"}


def numbers() -> Iterator[tuple[type[Any], str, Rule]]:
    """Every option that is a number, of both kinds of runs."""
    for kind in KINDS:
        values = flatten(encode(kind()))
        yield from ((kind, name, rule) for name, rule in rules(kind).items() if type(values[name]) in (int, float))


def edges(rule: Rule) -> tuple[list[float], list[float]]:
    """Values at the bounds, or a little within them, and values that are just outside."""
    inside = [bound for bound in (rule.at_least, rule.at_most) if bound is not None]
    inside += [rule.above + 1e-3] if rule.above is not None else []
    inside += [rule.below - 1e-3] if rule.below is not None else []
    outside = [bound for bound in (rule.above, rule.below) if bound is not None]
    outside += [rule.at_least - 1] if rule.at_least is not None else []
    outside += [rule.at_most + 1] if rule.at_most is not None else []
    return inside, outside


def test_every_number_has_bounds_and_they_hold() -> None:
    for kind, name, rule in numbers():
        assert bool(rule.bounds) != (name in UNBOUNDED), name
        inside, outside = edges(rule)
        validate(override(kind(), [f"{name}={value}" for value in inside]))
        is_float = isinstance(flatten(encode(kind()))[name], float)
        for value in [*outside, *([math.nan, math.inf] if is_float else [])]:
            with pytest.raises(ConfigError, match=rf"^{name} must be .*, got "):
                validate(override(kind(), [f"{name}={value}"]))


@pytest.mark.parametrize(
    ("kind", "setting", "message"),
    [
        (PretrainConfig, "steps=0", "train.steps must be at least 1, got 0"),
        (PretrainConfig, "masking.rate=1.5", "objective.masking.rate must be in (0, 1), got 1.5"),
        (PretrainConfig, "learning_rate=nan", "optimizer.learning_rate must be finite, got nan"),
        (PretrainConfig, "keep=1", "train.keep must be at least 2, got 1"),  # a torn checkpoint needs a predecessor
        (FinetuneConfig, "warmup_ratio=2", "warmup_ratio must be in [0, 1], got 2.0"),
        (FinetuneConfig, "train.steps=-1", "train.steps must be at least 0, got -1"),  # 0: as many as epochs say
    ],
)
def test_messages_of_bounds(kind: type[Any], setting: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validate(override(kind(), [setting]))
    assert str(caught.value) == message


@pytest.mark.parametrize("kind", KINDS)
def test_needs_name_options_and_values_that_exist(kind: type[Any]) -> None:
    described = describe(kind())
    for name, rule in rules(kind).items():
        for condition in rule.needs:
            for term in condition.split(" or "):
                needed, _, values = parse_term(term)
                choices = described[needed].values.split(" | ")
                is_open = choices in (["str"], ["bool"])
                assert values or choices[0] in ("str", "int", "(empty)"), f"{name}: {term}"
                assert is_open or all(any(fnmatchcase(choice, value) for choice in choices) for value in values), term


CONTINUED = "model.start_from=bert"


@pytest.mark.parametrize(
    ("objective", "settings"),
    [  # the last setting does nothing
        ("electra", "model.generator_from=runs/other"),
        ("electra", "model.extend_vocabulary=true"),
        ("mlm", f"{CONTINUED} model.generator_from=runs/other"),
        ("mlm", "objective.discriminator_weight=10"),
        ("mlm", "model.embedding_sharing=gdes"),
        ("electra", "objective.updates=alternating"),
        ("electra", "model.embedding_sharing=gdes level=token objective.updates=alternating"),
        ("electra", f"{CONTINUED} model.part=discriminator"),
        ("cline", "model.part=discriminator"),
        ("mlm", f"{CONTINUED} model.num_layers=7"),
        ("electra", "objective.correction.use=marginal"),
        ("cline", "objective.correction.forms=lemma"),
        ("electra", "correction.detector=ema objective.correction.forms=lemma"),
        ("mlm", "correction.detector=lexical[forms=retrieved]&fits objective.correction.forms=lemma"),
        ("mlm", "correction.detector=calibrated.json objective.correction.forms=lemma"),
        ("mlm", "correction.detector=lexical objective.correction.discriminator=soft"),
        ("mlm", "objective.correction.wordnet=some/wordnet"),
        ("mlm", "objective.regularization.weight=1"),
        ("mlm", "level=sentence objective.regularization.variant=soft"),
        ("electra", "level=token objective.regularization.direction=original-predicted"),
        ("mlm", "objective.cline.guard=lexical"),
        ("electra", "objective.cline.views.senses=all"),
        ("cline", "objective.cline.guard_floor=0.1"),
        ("mlm", "preset=mine"),
        ("mlm", "objective.temperature=3"),
        ("electra", "prediction=argmax objective.temperature=3"),
        ("mlm", "optimizer.decay_ratio=0.5"),
        ("mlm", "optimizer.muon_momentum=0.9"),
        ("mlm", "optimizer.name=stableadamw optimizer.muon_adjust_lr=original"),
        ("mlm", "schedule=constant optimizer.min_lr_ratio=0.5"),
        ("mlm", "unit=word objective.masking.max_span=3"),
        ("mlm", "architecture=bert model.embedding_size=16"),
        ("electra", "architecture=bert model.generator_width=0.5"),
        ("electra", f"{CONTINUED} model.generator_from=runs/b model.generator_depth=0.5"),
        ("cline", "cline.contrast=false objective.cline.pooling=mean"),
        ("cline", "cline.contrast=false objective.cline.guard=lexical"),
        ("cline", "cline.rtd=false objective.cline.rtd_weight=2"),
        ("cline", "cline.variant=released objective.cline.temperature=2"),
        ("cline", "cline.rtd=false cline.contrast=false objective.cline.views.synonym_share=0.2"),
        ("cline", "negatives=random objective.cline.views.antonym_share=0.1"),
        ("cline", "views.random=none objective.cline.views.antonym_kinds=one"),
        ("mlm", "objective.cline.views.preset=paper"),
        ("electra", "objective.cline.views.min_count=0"),
    ],
)
def test_settings_that_do_nothing_are_refused(objective: str, settings: str, tmp_path: Path) -> None:
    given = settings.split()
    with pytest.raises(ConfigError, match=f"^{given[-1].partition('=')[0]} does nothing "):
        configure("electra-tiny", objective=objective, settings=given)
    # A saved configuration says everything, and is taken as it is.
    saved = override(with_objective(preset("electra-tiny"), objective), given)
    save_config(saved, tmp_path / "config.json")
    assert configure(config=tmp_path / "config.json", settings=["train.steps=7"]) == override(saved, ["train.steps=7"])


def test_the_message_names_what_is_missing_and_its_flag() -> None:
    with pytest.raises(ConfigError) as caught:
        check_options_apply(PretrainConfig(), ["use=marginal"])
    assert str(caught.value) == (
        "objective.correction.use does nothing unless objective.correction.detector (--hard-correction) is set: "
        "change that, or leave it out"
    )


@pytest.mark.parametrize(
    ("objective", "settings"),
    [
        ("electra", "model.start_from=runs/a model.generator_from=runs/b"),
        ("electra", "model.start_from=runs/a model.generator_width=0.25 model.generator_depth=0.5"),
        ("electra", "correction.use=soft_targets correction.detector=lexical correction.discriminator=soft"),
        ("electra", "level=token+sentence regularization.weight=2 collapse_threshold=0.9 sentence_stop_gradient=none"),
        ("cline", "cline.guard=lexical guard_floor=0.1 correction.forms=lemma"),
        ("mlm", "correction.wordnet=some/wordnet correction.detector=fits model.num_layers=3 model.dropout=0"),
        ("cline", "correction.wordnet=some/wordnet cline.contrast=false views.antonym_share=0.1"),
        ("cline", "cline.variant=released cline.contrast=false cline.guard=lexical forms=lemma"),
        ("mlm", "correction.detector=lexical|ema correction.forms=retrieved"),
        ("mlm", "correction.detector=lexical[forms=retrieved]|lexical correction.forms=agree"),
        ("mlm", "objective.temperature=2 prediction=sampled unit=span mean_span=2 schedule=wsd decay_ratio=0.2"),
        ("mlm", f"{CONTINUED} extend_vocabulary=true model.dropout=0"),
    ],
)
def test_settings_that_do_something_are_taken(objective: str, settings: str) -> None:
    given = settings.split()
    wanted = override(with_objective(preset("electra-tiny"), objective), given)
    assert configure("electra-tiny", objective=objective, settings=given) == wanted


def test_a_generator_next_to_the_checkpoint_has_its_own_sizes(tmp_path: Path) -> None:
    settings = [f"model.start_from={tmp_path}", "model.generator_depth=0.5"]
    configure("electra-tiny", settings=settings)
    (tmp_path / "hf" / "generator").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"^model.generator_depth does nothing"):
        configure("electra-tiny", settings=settings)


@pytest.mark.parametrize(
    ("task", "settings"),
    [
        ("mr", "freelb.steps=2"),
        ("mr", "adversarial=freelb smart.weight=2"),
        ("mr", "valid_fraction=0.2"),
        ("mr", "train.eval_every=5"),
        ("mr", "select=best train.eval_every=5 evals_per_epoch=2"),
        ("mr", "train.steps=5 epochs=2"),
        ("mr", "warmup_steps=5 warmup_ratio=0.2"),
        ("mr", "task.max_answer=5"),
        ("squad", "task.null_threshold=5"),
        ("mr", "task.text_column=text"),
        ("mr", "optimizer.decay_ratio=0.5"),
    ],
)
def test_settings_of_fine_tuning_that_do_nothing_are_refused(task: str, settings: str) -> None:
    given = settings.split()
    with pytest.raises(ConfigError, match=f"^{given[-1].partition('=')[0]} does nothing "):
        check_options_apply(override(FinetuneConfig(task=TaskConfig(name=task)), given), given)


@pytest.mark.parametrize(
    ("task", "settings"),
    [
        ("mr", "adversarial=freelb freelb.steps=2 epochs=2 optimizer.warmup_steps=5"),
        ("mr", "select=best valid_fraction=0.2 evals_per_epoch=2 warmup_ratio=0.2 train.steps=9"),
        ("squad/v2.0", "task.null_threshold=5 task.doc_stride=64 select=best train.eval_every=5"),
        ("regression", "task.text_column=text task.label_column=score schedule=wsd decay_ratio=0.5"),
    ],
)
def test_settings_of_fine_tuning_that_do_something_are_taken(task: str, settings: str) -> None:
    given = settings.split()
    check_options_apply(override(FinetuneConfig(task=TaskConfig(name=task)), given), given)


def views_of(*settings: str) -> dict[str, Any]:
    return encode(configure("electra-tiny", objective="cline", settings=settings).objective.cline.views)


def test_a_preset_of_views_is_recorded_with_the_values_that_are_used() -> None:
    ours, paper, released = (views_of(f"cline.views.preset={name}") for name in ("trueneg", "paper", "released"))
    assert ours == views_of() == encode(ViewsConfig())
    asked = {"min_count": 0, "min_ratio": 0.0, "words": "tagged", "agree": False, "multiword": True, "senses": "all"}
    assert asked.items() <= paper.items() and asked.items() <= released.items()
    assert (paper["synonym_share"], paper["antonym_share"], paper["kinds"]) == (0.4, 0.2, "mixed")
    assert (released["synonym_share"], released["antonym_share"], released["antonym_kinds"]) == (0.5, 0.5, "one")
    # What is set besides stays set, before or after it; what an earlier configuration had does not.
    wanted = paper | {"min_count": 7}
    assert views_of("cline.views.min_count=7", "cline.views.preset=paper") == wanted
    assert views_of("cline.views.preset=paper", "cline.views.min_count=7") == wanted
    once = override(ViewsConfig(), ["min_count=7", "articles=false"])
    assert override(once, ["preset=trueneg"]) == ViewsConfig()
    with pytest.raises(ConfigError, match="did you mean 'paper'"):
        views_of("cline.views.preset=papers")


def test_the_released_variant_brings_the_released_views() -> None:
    released = views_of("cline.views.preset=released")
    assert views_of("cline.variant=released") == released
    assert views_of("cline.views.agree=true", "cline.variant=released") == released | {"agree": True}
    assert views_of("cline.variant=released", "cline.views.preset=trueneg") == views_of()
    assert views_of("cline.variant=paper") == views_of()


def test_the_released_variant_reads_the_original_masked_whatever_the_preset() -> None:
    """As the authors' code; the papers' presets read the text itself, as Eq. 5 and 6."""

    def original(*settings: str) -> str:
        cline = configure("cline-bert-base", settings=settings).objective.cline
        assert cline.views.preset == ("released" if "cline.variant=released" in settings else "paper")
        return cline.original

    assert original() == original("cline.variant=paper") == "clean"
    assert original("cline.variant=released") == "masked"
    assert original("cline.variant=released", "cline.original=clean") == "clean"
    without = configure("cline-bert-base", settings=["cline.variant=released", "cline.contrast=false"])
    assert without.objective.cline.views.preset == "released"


def test_a_preset_of_views_in_a_file_stands_for_its_values(tmp_path: Path) -> None:
    saved = override(PretrainConfig(), ["cline.views.preset=paper", "cline.views.senses=first"])
    save_config(saved, tmp_path / "config.json")
    assert load_config(PretrainConfig, tmp_path / "config.json") == saved
    by_hand = {"objective": {"cline": {"views": {"preset": "paper", "senses": "first"}}}}
    assert decode(PretrainConfig, by_hand) == saved
    before = encode(saved)["objective"]["cline"]["views"]
    del before["preset"]  # a run of a version without presets
    assert encode(decode(ViewsConfig, before)) == before | {"preset": "trueneg"}


OF_ANY_RUN = {
    *("preset", "plugins", "train.accumulation", "train.compile", "train.gradient_checkpointing", "train.log_every"),
    *("train.eval_every", "train.save_every", "train.save_minutes", "train.keep", "train.keep_at", "train.keep_every"),
    *("train.max_minutes", "train.device", "train.tracker", "train.cuda_graphs", "train.timeout_seconds"),
}


def test_what_may_change_on_resume_and_what_is_compared() -> None:
    """Pinned: freeing an option that bends the curve would resume a run as another one."""
    free = {kind: names_where(kind, lambda rule: rule.resume == "free") for kind in KINDS}
    assert free[PretrainConfig] == OF_ANY_RUN | {
        "corpus.path",
        "corpus.eval_rows",
        "corpus.max_epochs",
        "corpus.held_out",
        "model.fused",
        "objective.max_logits_mb",
        "objective.correction.wordnet",
    }
    assert free[FinetuneConfig] == OF_ANY_RUN | {"task.data"}
    unfinished = names_where(FinetuneConfig, lambda rule: rule.resume == "unfinished")
    assert unfinished == {"task.max_dev_examples", "keep_model"}
    ignored = names_where(FinetuneConfig, lambda rule: not rule.is_compared)
    assert ignored == OF_ANY_RUN | {
        "task.data",
        "start_from",
        "keep_model",
        "evals_per_epoch",
        "hold_out",
        "train.seed",
    }


RENAMED = {
    "optimizer.max_norm": "optimizer.max_grad_norm",
    "optimizer.final_share": "optimizer.min_lr_ratio",
    "optimizer.decay_share": "optimizer.decay_ratio",
}


@pytest.mark.parametrize("old", RENAMED)
def test_old_names_are_read_with_a_warning(old: str) -> None:
    new = RENAMED[old]
    expected = override(PretrainConfig(), [f"{new}=0.25"])
    group, _, last = old.partition(".")
    for read in (
        lambda: override(PretrainConfig(), [f"{old}=0.25"]),
        lambda: override(PretrainConfig(), [f"{last}=0.25"]),
        lambda: decode(PretrainConfig, {group: {last: 0.25}}),
    ):
        with pytest.warns(TruenegDeprecationWarning, match=f"{last} is now called {new}"):
            assert read() == expected
    with pytest.raises(ConfigError, match=f"{new} is given twice"):
        decode(PretrainConfig, {group: {last: 0.25, new.partition(".")[2]: 0.5}})


@pytest.mark.parametrize(("old", "new"), [("weigh", "down_weight"), ("set", "marginal"), ("soft", "soft_targets")])
def test_old_values_are_read_with_a_warning(old: str, new: str) -> None:
    expected = override(PretrainConfig(), [f"correction.use={new}"])
    for read in (
        lambda: override(PretrainConfig(), [f"correction.use={old}"]),
        lambda: decode(PretrainConfig, {"objective": {"correction": {"use": old}}}),
    ):
        with pytest.warns(TruenegDeprecationWarning, match=f"objective.correction.use={old} is now called {new}"):
            assert read() == expected


@pytest.mark.parametrize("kind", KINDS)
def test_old_names_and_values_are_none_of_today(kind: type[Any]) -> None:
    described = describe(kind())
    for name, rule in rules(kind).items():
        group = name.rpartition(".")[0]
        assert not {f"{group}.{old}".lstrip(".") for old in rule.formerly} & described.keys()
        choices = set(described[name].values.split(" | "))
        assert not choices & rule.old_values.keys()
        assert set(rule.old_values.values()) <= choices
