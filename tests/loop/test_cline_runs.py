"""CLINE goes through the loop like any objective: it learns, and resumes to the bit."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tiny_runs import (
    WORDNET,
    changed_wordnet,
    check_resumes,
    cut_run,
    final_tensors,
    make_config,
    readings,
    together,
    weight_distance,
)
from transformers import AutoModelForMaskedLM, TrainingArguments

import tiny
from trueneg.config.codec import override
from trueneg.config.options import PretrainConfig
from trueneg.corpus.build import build_corpus
from trueneg.corpus.store import Corpus
from trueneg.corpus.tags import Tags
from trueneg.corruption.views.rows import cached_replacements
from trueneg.errors import CheckpointError, ConfigError, CorpusError, LexiconError, TruenegWarning
from trueneg.integrations.trainer import TruenegTrainer
from trueneg.lexicon.replacements import ReplacementOptions
from trueneg.objectives import with_objective
from trueneg.runs.building import build, reader_of
from trueneg.runs.pretraining import pretrain
from trueneg.tokenizer import load_tokenizer
from trueneg.training.batches import row_index

Configure = Callable[..., PretrainConfig]


@pytest.fixture
def configure(tagged: Path) -> Configure:
    def make(*settings: str) -> PretrainConfig:
        config = with_objective(make_config(tagged, "mlm"), "cline")
        own = ["cline.views.senses=all", f"correction.wordnet={WORDNET}"]
        return override(config, [*own, *settings])

    return make


KEPT = ["correction.detector=lexical", "correction.denominator=kept"]
GUARDED = ["cline.guard=lexical", "cline.guard_floor=0.1"]


@pytest.mark.parametrize(
    "settings",
    [
        [],
        ["cline.variant=released", *GUARDED],
        ["corpus.pack=true", "cline.negatives=random"],
        ["cline.guard=ema[momentum=0.9]@0.01"],
    ],
)
def test_a_run_cut_at_random_steps_ends_as_the_uninterrupted_one(
    settings: list[str], configure: Configure, tmp_path: Path
) -> None:
    config = configure("model.dropout=0.1", "train.save_every=4", *settings)
    check_resumes(config, tmp_path, *sorted(random.Random(str(settings)).sample(range(1, 24), 2)))


def test_it_learns_which_view_means_the_same(configure: Configure, tmp_path: Path) -> None:
    config = configure("train.steps=300", "learning_rate=5e-3", "train.eval_every=300", "train.batch_size=16")
    pretrain(config, tmp_path / "run", quiet=True)
    records = readings(tmp_path / "run")
    trained = [record for record in records if record["kind"] == "train"]
    last = next(record for record in records if record["kind"] == "eval")
    first, final = (sum(r["triplet_accuracy"] for r in part) / 5 for part in (trained[:5], trained[-5:]))
    assert final > 0.85 > 0.65 > first
    assert last["triplet_accuracy"] > 0.65, "also of rows it was not trained on"
    assert last["mlm_loss"] < 0.95 * trained[0]["mlm_loss"]
    assert last["detection_accuracy"] > 0.75
    assert 0.05 < last["antonym_replaced"] <= 0.25, "a fifth, where there are words to put there"
    assert 0.2 < last["synonym_replaced"] <= 0.45
    assert {"weight_mlm", "weight_rtd", "weight_contrast"} <= trained[-1].keys()
    AutoModelForMaskedLM.from_pretrained(tmp_path / "run" / "hf")


def test_views_of_another_wordnet_are_refused(configure: Configure, tmp_path: Path) -> None:
    pretrain(configure("train.steps=2"), tmp_path / "run", quiet=True)
    other = configure("train.steps=2", f"correction.wordnet={changed_wordnet(tmp_path / 'changed')}")
    with pytest.raises(CheckpointError, match="was trained with other tables"):
        pretrain(other, tmp_path / "run", resume=True, quiet=True)


def test_other_settings_of_views_have_another_table(
    configure: Configure, tagged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table of other settings in the cache is not taken for theirs, and theirs is found again."""
    monkeypatch.setenv("TRUENEG_CACHE", str(tmp_path))
    rows, tokenizer = row_index(configure(), Corpus.open(tagged)), load_tokenizer(tagged / "tokenizer")
    settings = ["min_count=2", "min_count=20", "min_ratio=0.9", "words=tagged", "preset=paper", "random=any"]
    digests = [
        (setting, reader_of(configure(f"cline.views.{setting}"), rows, tokenizer).digest)  # type: ignore[attr-defined]
        for setting in [*settings, *settings]
    ]
    assert digests[: len(settings)] == digests[len(settings) :]
    assert len(list((tmp_path / "replacements").iterdir())) == len(settings)
    assert len({digest for _, digest in digests}) >= 4  # in some the tiny text has the same words
    with pytest.raises(LexiconError, match=r"lower views\.min_count=5000 or views\.min_ratio=0\.01, or if the text"):
        reader_of(configure("cline.views.min_count=5000"), rows, tokenizer)


def test_other_counts_of_senses_have_another_table(
    tagged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same WordNet but for ``cntlist.rev``, which is no part of its digest."""
    monkeypatch.setenv("TRUENEG_CACHE", str(tmp_path / "cache"))
    found = []
    for counts in ("large%3:00:00:: 1 9\n", "large%3:00:00:: 1 8\n"):
        wordnet = shutil.copytree(WORDNET, tmp_path / str(len(found)))
        (wordnet / "cntlist.rev").write_text(counts)
        table = cached_replacements(Tags.open(Corpus.open(tagged)), ReplacementOptions(senses="frequent"), str(wordnet))
        found.append(table.provenance["sense_counts_digest"])
    assert len({*found}) == 2


def test_the_released_variant_is_recorded_with_its_views(configure: Configure, tmp_path: Path) -> None:
    pretrain(configure("train.steps=2", "cline.variant=released"), tmp_path / "run", quiet=True)
    views = json.loads((tmp_path / "run" / "config.json").read_text())["objective"]["cline"]["views"]
    used = {"preset": "released", "min_count": 0, "min_ratio": 0.0, "agree": False, "multiword": True, "random": "any"}
    assert views | used == views
    ours = configure("train.steps=2", "cline.variant=released", "cline.views.preset=trueneg", "cline.views.senses=all")
    with pytest.raises(CheckpointError):
        pretrain(ours, tmp_path / "run", resume=True, quiet=True)


def test_an_epoch_later_a_text_has_other_views(configure: Configure, tagged: Path) -> None:
    config = configure()
    rows = row_index(config, Corpus.open(tagged))
    read = reader_of(config, rows, load_tokenizer(tagged / "tokenizer"))
    numbers = np.arange(20)
    one, again, later = (read(rows, numbers, 1, positions) for positions in (numbers, numbers, numbers + len(rows)))
    for view in ("synonym", "antonym"):
        first, second, third = (getattr(views, view).input_ids for views in (one, again, later))
        assert first.equal(second) and not first.equal(third)
        segments, starts = (getattr(getattr(one, view), name) for name in ("segments", "starts"))
        begins = np.diff(segments.numpy(), axis=1, prepend=-1) != 0
        assert starts.unique().tolist() == [*np.flatnonzero(begins), segments.numel()]
        assert not getattr(one, view).is_full and len(starts) == len(one.rows.starts)
    assert one.rows.input_ids.equal(later.rows.input_ids)


@pytest.mark.parametrize("accumulation", [2, 4])
def test_accumulation_changes_only_rounding(accumulation: int, configure: Configure, tmp_path: Path) -> None:
    options = ("train.steps=6", "train.eval_every=0")
    pretrain(configure(*options), tmp_path / "1", quiet=True)
    pretrain(configure(*options, f"train.accumulation={accumulation}"), tmp_path / "n", quiet=True)
    assert weight_distance(tmp_path / "1", tmp_path / "n") < 2e-6


@pytest.mark.parametrize(
    "settings", [[], GUARDED, ["cline.rtd=false"], ["cline.variant=released", "cline.contrast=false"]]
)
def test_two_processes_come_to_the_same(settings: list[str], configure: Configure, tmp_path: Path) -> None:
    config = configure("train.steps=6", "train.eval_every=0", *settings)
    told = together(config, tmp_path / "two", 2)
    assert [t.get("reason") for t in told] == ["finished"] * 2, told
    pretrain(config, tmp_path / "one", quiet=True)
    # Steps of 1e-3: where a gradient is nearly zero, Adam's step has the sign of its rounding.
    assert weight_distance(tmp_path / "one", tmp_path / "two") < 5e-5


@pytest.mark.parametrize(
    ("settings", "is_free"),
    [
        (["cline.in_batch_negatives=true"], False),
        (["cline.negatives=random"], False),
        (["cline.negatives=random", "cline.contrast=false"], True),
        ([], True),
        (["objective.name=mlm", *KEPT], False),
        (["objective.name=electra", "model.architecture=electra", *KEPT], False),
    ],
)
def test_what_depends_on_a_micro_batchs_rows_keeps_their_number(
    settings: list[str], is_free: bool, configure: Configure, tmp_path: Path
) -> None:
    config = configure("train.steps=3", "train.save_every=2", "train.eval_every=0", "train.accumulation=2", *settings)
    cut_run(config, tmp_path / "run", 2)
    other = override(config, ["train.accumulation=1"])
    refused = pytest.raises(CheckpointError, match=r"trained on 4 rows a micro-batch, here it has 8.*accumulation=2")
    with nullcontext() if is_free else refused:
        pretrain(other, tmp_path / "run", resume=True, quiet=True)
    assert pretrain(config, tmp_path / "run", resume=True, quiet=True).step == 3


def test_on_two_processes_the_rows_of_a_micro_batch_are_kept_by_accumulation(
    configure: Configure, tmp_path: Path
) -> None:
    options = ("train.steps=6", "train.eval_every=0", "cline.in_batch_negatives=true", "cline.similarity=cosine")
    pretrain(configure(*options), tmp_path / "eight", quiet=True)
    pretrain(configure(*options, "train.accumulation=2"), tmp_path / "four", quiet=True)
    assert together(configure(*options), tmp_path / "two", 2) == [{"reason": "finished", "step": 6}] * 2
    assert weight_distance(tmp_path / "four", tmp_path / "two") < 5e-5
    eight, four, two = (readings(tmp_path / name)[0]["contrast_loss"] for name in ("eight", "four", "two"))
    assert two == pytest.approx(four, rel=1e-4) and abs(two - eight) > 0.2


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_a_run_that_continues_it_has_all_its_weights(variant: str, configure: Configure, tmp_path: Path) -> None:
    config = configure("train.steps=2", f"cline.variant={variant}")
    pretrain(config, tmp_path / "run", quiet=True)
    tokenizer = load_tokenizer(Path(config.corpus.path) / "tokenizer")
    model, _ = build(override(config, [f"model.start_from={tmp_path / 'run'}"]), tokenizer)
    saved = final_tensors(tmp_path / "run")
    found = {f"model.{name}": value for name, value in model.state_dict().items() if f"model.{name}" in saved}
    assert any("replaced_head" in name for name in found) and any("pooler" in name for name in found) == (
        variant == "released"
    )
    assert [name for name, value in found.items() if not torch.equal(value, saved[name])] == []


def test_trainer_takes_the_same_steps(configure: Configure, tagged: Path, tmp_path: Path) -> None:
    rate = 1e-3
    constant = (f"learning_rate={rate}", "optimizer.schedule=constant", "warmup_steps=0")
    config = configure("train.steps=4", "train.eval_every=0", *constant)
    pretrain(config, tmp_path / "own", quiet=True)
    tokenizer = load_tokenizer(tagged / "tokenizer")
    rows, held_out = (row_index(config, Corpus.open(tagged, split)) for split in ("train", "valid"))
    arguments = TrainingArguments(
        str(tmp_path / "theirs"),
        max_steps=4,
        per_device_train_batch_size=config.train.batch_size,
        learning_rate=rate,
        lr_scheduler_type="constant",
        weight_decay=config.optimizer.weight_decay,
        adam_epsilon=config.optimizer.epsilon,
        seed=config.train.seed,
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
    )
    given = {"train_dataset": rows, "eval_dataset": held_out, "processing_class": tokenizer}
    parts = build(config, tokenizer)
    with pytest.raises(ConfigError, match="read=reader_of"):
        TruenegTrainer(*parts, arguments, **given)
    trainer = TruenegTrainer(*parts, arguments, **given, read=reader_of(config, rows, tokenizer))
    trainer.train()
    ours = final_tensors(tmp_path / "own")
    for name, value in trainer.model.named_parameters():
        if name in ours:
            assert float((value.detach() - ours[name]).abs().max()) < rate / 100, name
    assert {"eval_loss/contrast", "eval_triplet_accuracy"} <= trainer.evaluate().keys()


def test_hard_correction_and_soft_regularization_compose_with_it(configure: Configure, tmp_path: Path) -> None:
    config = configure("correction.detector=lexical", "correction.forms=lemma", "regularization.level=token")
    pretrain(config, tmp_path / "run", quiet=True)
    last = [record for record in readings(tmp_path / "run") if record["kind"] == "train"][-1]
    assert last["loss/sr"] > 0 and "corrected" in last and "triplet_accuracy" in last


@pytest.mark.parametrize("guard", ["lexical", "contextual:ENCODER@0.01 & !antonym"])
def test_a_guard_says_how_far_views_are_trusted(
    guard: str, configure: Configure, tokenizer_folder: Path, tmp_path: Path
) -> None:
    tokenizer = load_tokenizer(tokenizer_folder)
    tiny.make_hf_masked_lm("bert", vocab_size=len(tokenizer), initializer_range=0.3).save_pretrained(tmp_path / "enc")
    tokenizer.save_pretrained(str(tmp_path / "enc"))
    guard = guard.replace("ENCODER", str(tmp_path / "enc"))
    config = configure("train.steps=4", "train.log_every=2", "train.eval_every=4", f"cline.guard={guard}")
    pretrain(config, tmp_path / "run", quiet=True)
    for record in readings(tmp_path / "run"):
        assert 0 < record["synonym_trust"] < 1 and 0 < record["antonym_trust"] <= 1
        assert 0.3 < record["judged"] <= 1, "most words are one token here"
    assert not [name for name in final_tensors(tmp_path / "run") if "guard" in name], "it is no part of the model"


@pytest.mark.parametrize("option", ["cline.negatives=random", "cline.in_batch_negatives=true"])
def test_others_of_the_micro_batch_must_be_there(option: str, configure: Configure, tmp_path: Path) -> None:
    alone = ("train.batch_size=8", "train.accumulation=8", option)
    with pytest.raises(ConfigError, match=r"has one row: raise train.batch_size, or lower"):
        pretrain(configure(*alone), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_views_that_replace_nothing_are_no_negatives(configure: Configure, tmp_path: Path) -> None:
    settings = ("train.steps=4", "train.log_every=4", "cline.views.random=none", "cline.views.senses=first")
    pretrain(configure(*settings), tmp_path / "run", quiet=True)
    first = readings(tmp_path / "run")[0]
    assert 0 < first["without_negative"] < 1
    assert 0 <= first["synonym_cut"] < 0.1


def test_a_corpus_without_tags_is_refused_with_the_remedy(configure: Configure, corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="has no tags: build it again with --tag"):
        pretrain(configure(f"corpus.path={corpus}"), tmp_path / "run", quiet=True)


SPANISH = """la ciudad tiene muchas iglesias antiguas y un mercado grande . ella trabaja como maestra en una escuela
y vive con su marido en un pueblo . ayer vimos una buena pelicula que era muy larga ."""


@pytest.fixture
def spanish(tokenizer_folder: Path, tmp_path: Path) -> Path:
    (tmp_path / "text.txt").write_text("\n\n".join([SPANISH.replace("\n", " ")] * 20))
    with pytest.warns(TruenegWarning, match="unknown to the tokenizer"):
        build_corpus([str(tmp_path / "text.txt")], tokenizer_folder, tmp_path / "corpus", tagger="pattern")
    return tmp_path / "corpus"


def test_text_in_another_language_is_refused_with_the_remedy(configure: Configure, spanish: Path) -> None:
    with pytest.raises(LexiconError, match=r"only \d.*WordNet, which is English.*views\.lexicon=wn:LEXICON, and tag"):
        pretrain(configure(f"corpus.path={spanish}"), spanish.parent / "run", quiet=True)


def test_a_lexicon_of_another_language_asks_for_its_tagger(
    configure: Configure, spanish: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = SimpleNamespace(name="wn:mcr", language="es", is_english=False, digest="0")
    monkeypatch.setattr("trueneg.corruption.views.rows.WnLexicon", lambda name: found)
    with pytest.raises(ConfigError, match=r"wn:mcr is of the language 'es'.*by 'pattern', which knows English"):
        config = configure(f"corpus.path={spanish}", "cline.views.lexicon=wn:mcr", "cline.views.agree=false")
        pretrain(config, spanish.parent / "run", quiet=True)


def test_other_tags_are_another_run(configure: Configure, tagged: Path, tokenizer_folder: Path, tmp_path: Path) -> None:
    pretrain(configure("train.steps=3"), tmp_path / "run", quiet=True)
    text = tagged.parent / "text.txt"
    build_corpus([str(text)], tokenizer_folder, tmp_path / "other", valid=0.15, tagger="pattern-all")
    assert Corpus.open(tmp_path / "other").info.fingerprint == Corpus.open(tagged).info.fingerprint
    with pytest.raises(CheckpointError, match="was trained on other annotations or tags"):
        pretrain(configure("train.steps=3", f"corpus.path={tmp_path / 'other'}"), tmp_path / "run", resume=True)
