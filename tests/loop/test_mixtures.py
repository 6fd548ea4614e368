"""Runs on several corpora: what is read, logged, measured, resumed and refused."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_runs import (
    WORDNET,
    MakeConfig,
    check_resumes,
    cut_run,
    documents,
    final_tensors,
    together,
    weight_distance,
)

from trueneg.config.batch_sizes import rows_before
from trueneg.config.codec import override
from trueneg.config.options import PretrainConfig
from trueneg.corpus.annotate import write_annotations
from trueneg.corpus.build import build_corpus
from trueneg.corpus.mixture import MixedRows, open_corpora
from trueneg.detectors.annotator import DetectorAnnotator
from trueneg.detectors.table import TableDetector
from trueneg.errors import CheckpointError, ConfigError, CorpusError, TruenegError, TruenegWarning
from trueneg.lexicon.table import cached_table
from trueneg.runs import sources
from trueneg.runs.configuring import configure, load_run_config
from trueneg.runs.pretraining import pretrain
from trueneg.tokenizer import load_tokenizer
from trueneg.training import batches
from trueneg.training.batches import CorpusBatches, rows_of
from trueneg.training.distributed import Processes
from trueneg.training.log import read_metrics


@pytest.fixture(scope="module")
def reversed_text(tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A second corpus of other text, the words of each document the other way round, and half as much of it."""
    folder = tmp_path_factory.mktemp("second")
    text = "\n\n".join(" ".join(reversed(document.split())) for document in documents(75, seed=7))
    (folder / "text.txt").write_text(text)
    build_corpus([str(folder / "text.txt")], tokenizer_folder, folder / "reversed", valid=0.15)
    return folder / "reversed"


Mixed = Callable[..., PretrainConfig]


@pytest.fixture
def mixed(config_of: MakeConfig, corpus: Path, reversed_text: Path) -> Mixed:
    def make(kind: str = "mlm", *settings: str, weights: tuple[str, str] = (":0.7", ":0.3")) -> PretrainConfig:
        mixture = f"{corpus}{weights[0]}, {reversed_text}{weights[1]}"
        config = config_of(kind, f"corpus.mixture={mixture}", "corpus.path=", "train.steps=12", "train.log_every=4")
        return override(config, settings)

    return make


@pytest.fixture(autouse=True)
def _many_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny corpora are read often."""
    monkeypatch.setattr(sources, "MANY_EPOCHS", 1e9)


def test_shares_are_logged_as_they_were_read(
    mixed: Mixed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, corpus: Path
) -> None:
    """Counted in the rows that were read, not in those that were asked for."""
    config, seen = mixed(), Counter[int]()
    read = MixedRows.read

    def counting(self: MixedRows, indices: np.ndarray) -> object:
        seen.update(indices.tolist())
        return read(self, indices)

    monkeypatch.setattr(MixedRows, "read", counting)
    pretrain(config, tmp_path / "run", quiet=True)
    rows = rows_of(config, open_corpora(config.corpus))
    assert isinstance(rows, MixedRows)
    size = len(rows.sources[0])
    num_first, num_all = sum(count for row, count in seen.items() if row < size), sum(seen.values())
    assert num_all == 12 * config.train.batch_size
    last = [record for record in read_metrics(tmp_path / "run" / "metrics.jsonl") if record["kind"] == "train"][-1]
    assert last["source/corpus/share"] == num_first / num_all == pytest.approx(0.7, abs=1 / num_all)
    assert last["source/reversed/share"] == pytest.approx(0.3, abs=1 / num_all)
    assert last["source/corpus/epochs"] == num_first / size
    counts = np.array([seen[row] for row in range(size)])
    assert counts.max() - counts.min() <= 1  # every row once an epoch


def test_held_out_losses_are_each_sources_own_and_their_weighted_mean(mixed: Mixed, tmp_path: Path) -> None:
    config = mixed()
    done = pretrain(config, tmp_path / "run", quiet=True)
    found = done.held_out
    assert found["loss"] == pytest.approx(0.7 * found["source/corpus/loss"] + 0.3 * found["source/reversed/loss"])
    assert found["source/corpus/loss"] != found["source/reversed/loss"]
    # What a run measures of a corpus that it only measures is the same number.
    other = override(config, [f"corpus.path={config.corpus.sources[0].path}", "corpus.mixture=", "train.steps=1"])
    other = override(
        other, [f"corpus.held_out={config.corpus.sources[1].path}", f"model.start_from={done.hugging_face}"]
    )
    pretrain(other, tmp_path / "other", quiet=True)
    before = next(record for record in read_metrics(tmp_path / "other" / "metrics.jsonl") if record["kind"] == "eval")
    assert before["step"] == 0
    for name in ("corpus", "reversed"):
        assert before[f"source/{name}/loss"] == pytest.approx(found[f"source/{name}/loss"], rel=1e-5)
    assert before["loss"] == before["source/corpus/loss"]  # what is measured only does not count


def test_what_was_forgotten_is_said_at_the_end(
    mixed: Mixed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pretrain(mixed(), tmp_path / "base", quiet=True)
    capsys.readouterr()
    config = override(mixed(weights=(":0.9", ":0.1")), [f"model.start_from={tmp_path / 'base' / 'hf'}"])
    cut_run(config, tmp_path / "run", 3)  # before there is a checkpoint: it is measured again, once
    pretrain(config, tmp_path / "run", resume=True)
    told = " ".join(capsys.readouterr().err.split())
    records = [one for one in read_metrics(tmp_path / "run" / "metrics.jsonl") if one["kind"] == "eval"]
    assert [one["step"] for one in records] == [0, 8, 12]
    for name in ("corpus", "reversed"):
        before, after = (records[place][f"source/{name}/loss"] for place in (0, -1))
        assert f"{name}: held-out loss {before:.4f} before the first step, {after:.4f} at step 12" in told
    assert "corpus: 90.00% of the rows" in told
    assert "corpus: asked 90.00% of the rows, read 89.58%" in told  # 86 of 96


@pytest.mark.parametrize("settings", [(), ("corpus.pack=true", "corpus.length=40", "train.accumulation=2")])
def test_a_run_that_is_cut_ends_as_the_uninterrupted_one(
    mixed: Mixed, tmp_path: Path, settings: tuple[str, ...]
) -> None:
    choose = random.Random(len(settings))
    check_resumes(mixed("electra", "train.save_every=3", *settings), tmp_path, *sorted(choose.sample(range(1, 12), 2)))


def test_two_processes_with_micro_batches_read_the_same(mixed: Mixed, tmp_path: Path) -> None:
    pretrain(mixed(), tmp_path / "one", quiet=True)
    told = together(mixed("mlm", "train.accumulation=2"), tmp_path / "two", 2)
    assert told == [{"reason": "finished", "step": 12}] * 2
    assert weight_distance(tmp_path / "one", tmp_path / "two") < 1e-5
    config = mixed()
    rows = rows_of(config, open_corpora(config.corpus))
    whole = CorpusBatches(rows, config.train, Processes()).micro_batches(5)
    parts = [
        part
        for rank in range(2)
        for part in CorpusBatches(
            rows, override(config, ["train.accumulation=2"]).train, Processes(rank, 2)
        ).micro_batches(5)
    ]
    assert torch.equal(torch.cat([part.input_ids for part in parts]), whole[0].input_ids)
    assert torch.equal(torch.cat([part.keys for part in parts]), whole[0].keys)


def test_one_corpus_is_read_as_ever(config_of: MakeConfig) -> None:
    """The order of a single corpus is that of one without mixtures, which tests/corpus/test_order.py pins."""
    config = config_of("mlm")
    rows = rows_of(config, open_corpora(config.corpus))
    positions = np.arange(5 * len(rows))
    assert (rows.at(3, positions) == batches.rows_at(3, positions, len(rows))).all()


def test_weights_and_order_make_another_run(mixed: Mixed, tmp_path: Path, corpus: Path, reversed_text: Path) -> None:
    config = mixed("mlm", "train.save_every=4")
    cut_run(config, tmp_path / "run", 6)
    for changed, message in [
        (mixed("mlm", "train.save_every=4", weights=(":0.6", ":0.4")), r"source 1:0\.7.*-> source 1:0\.6"),
        (override(config, [f"corpus.mixture={reversed_text}:0.3,{corpus}:0.7"]), "the same corpora in another order"),
        (override(config, ["corpus.mixture=", f"corpus.path={corpus}"]), "other data"),
    ]:
        with pytest.raises(CheckpointError, match=message):
            pretrain(changed, tmp_path / "run", resume=True, quiet=True)
    # Elsewhere, and written another way, it is the same run.
    shutil.copytree(corpus, tmp_path / "a:1")
    moved = override(config, [f'corpus.mixture="{tmp_path / "a:1"}":0.70,{reversed_text}:3e-1'])
    assert pretrain(moved, tmp_path / "run", resume=True, quiet=True).reason == "finished"
    pretrain(config, tmp_path / "whole", quiet=True)
    ours, theirs = final_tensors(tmp_path / "run"), final_tensors(tmp_path / "whole")
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_a_run_is_done_again_from_its_configuration(mixed: Mixed, tmp_path: Path) -> None:
    config = mixed("mlm", "corpus.temperature=0.3", weights=("", ""))
    pretrain(config, tmp_path / "run", quiet=True)
    again = load_run_config(tmp_path / "run")
    assert again.corpus.mixture == config.corpus.mixture and again.corpus.temperature == 0.3
    rows = rows_of(again, open_corpora(again.corpus))
    assert isinstance(rows, MixedRows)
    sizes = np.array([len(one) for one in rows.sources]) ** 0.3
    assert rows.asked == pytest.approx(sizes / sizes.sum(), abs=1e-5)
    assert configure(config=tmp_path / "run").corpus.sources == config.corpus.sources


def test_epochs_of_a_mixture_are_of_all_its_rows(mixed: Mixed) -> None:
    mixture = mixed().corpus.mixture
    config = configure("electra-tiny", epochs=2, settings=[f"corpus.mixture={mixture}", "corpus.length=24"])
    rows = rows_of(config, open_corpora(config.corpus))
    assert config.train.steps == -(-2 * len(rows) // config.train.batch_size)
    even = configure("electra-tiny", epochs=3, settings=[f"corpus.mixture={mixed(weights=('', '')).corpus.mixture}"])
    rows = rows_of(even, open_corpora(even.corpus))
    epochs = rows.epochs(even.train.steps * even.train.batch_size)
    assert list(epochs.values()) == pytest.approx([3, 3], abs=0.2)


def test_epochs_take_more_steps_while_batches_grow(mixed: Mixed) -> None:
    growing = ["train.batch_warmup_steps=6", "train.batch_warmup_from=2"]
    config = configure("electra-tiny", epochs=2, settings=[f"corpus.mixture={mixed().corpus.mixture}", *growing])
    num_rows = 2 * len(rows_of(config, open_corpora(config.corpus)))
    assert rows_before(config.train, config.train.steps - 1) < num_rows <= rows_before(config.train, config.train.steps)


def test_many_epochs_are_warned_of_and_can_be_refused(
    mixed: Mixed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "MANY_EPOCHS", 4.0)
    config = mixed("mlm", "train.steps=100", "train.eval_every=0", "corpus.eval_rows=0", weights=(":0.1", ":0.9"))
    rows = rows_of(config, open_corpora(config.corpus))
    epochs = rows.epochs(100 * config.train.batch_size)["reversed"]
    assert epochs > 4
    limit = override(config, ["corpus.max_epochs=2"])
    with pytest.raises(ConfigError, match=rf"'reversed' would be read {epochs:.2f} times in 100 steps") as caught:
        pretrain(limit, tmp_path / "refused", quiet=True)
    steps = int(str(caught.value).partition("at most ")[2].split()[0])
    at_most = override(limit, [f"train.steps={steps}"])
    assert rows.epochs(steps * config.train.batch_size)["reversed"] <= 2
    pretrain(at_most, tmp_path / "fits", quiet=True)
    with pytest.warns(TruenegWarning, match=rf"the run reads 'reversed' {epochs:.1f} times"):
        pretrain(override(config, ["train.max_minutes=1e-6"]), tmp_path / "often", quiet=True)


def annotated(corpus: Path, tokenizer: Path, out: Path, most: int) -> Path:
    table = TableDetector(cached_table(load_tokenizer(tokenizer), wordnet=WORDNET, forms="lemma"))
    write_annotations(corpus, DetectorAnnotator(table, "lexical"), out, most=most)
    return out


def test_each_corpus_has_its_own_annotations(
    mixed: Mixed, corpus: Path, reversed_text: Path, tokenizer_folder: Path, tmp_path: Path
) -> None:
    """Judged as it is read, and looked up in two folders whose lists are of different width: the same run."""
    first = annotated(corpus, tokenizer_folder, tmp_path / "first", 32)
    second = annotated(reversed_text, tokenizer_folder, tmp_path / "second", 16)
    config = mixed("corrected", "train.steps=40", "optimizer.learning_rate=1e-2", weights=(":0.2", ":0.8"))
    pretrain(config, tmp_path / "lexical", quiet=True)
    detector = f"annotated:{first} | annotated:{second}"
    both = override(config, [f"objective.correction.detector={detector}"])
    pretrain(both, tmp_path / "both", quiet=True)
    assert weight_distance(tmp_path / "lexical", tmp_path / "both") == 0
    one = override(config, [f"objective.correction.detector=annotated:{first}"])
    with pytest.warns(TruenegWarning, match="reversed' has no annotations: nothing of it is corrected"):
        pretrain(one, tmp_path / "one", quiet=True)
    assert weight_distance(tmp_path / "lexical", tmp_path / "one") > 0
    unequal = override(config, [f"objective.correction.detector=annotated:{first}@0.6 | annotated:{second}"])
    with pytest.raises(ConfigError, match="give every annotated:FOLDER the same"):
        pretrain(unequal, tmp_path / "unequal", quiet=True)
    alone = override(config, ["corpus.mixture=", f"corpus.path={corpus}", f"objective.correction.detector={detector}"])
    with pytest.raises(ConfigError, match="a run reads one folder of annotations"):
        pretrain(alone, tmp_path / "alone", quiet=True)
    shutil.copytree(first, tmp_path / "copy")
    twice = override(both, [f"objective.correction.detector={detector} | annotated:{tmp_path / 'copy'}"])
    with pytest.raises(ConfigError, match="both annotate"):
        pretrain(twice, tmp_path / "twice", quiet=True)


def test_what_is_no_mixture_is_refused(
    mixed: Mixed, config_of: MakeConfig, corpus: Path, reversed_text: Path, tokenizer_folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(corpus, tmp_path / "copy")
    (tmp_path / "short.txt").write_text("the big beast .")
    build_corpus([str(tmp_path / "short.txt")], tokenizer_folder, tmp_path / "short")
    tokenizer = load_tokenizer(tokenizer_folder)
    tokenizer.add_tokens(["zebra"])
    tokenizer.save_pretrained(str(tmp_path / "larger"))
    build_corpus([str(corpus.parent / "text.txt")], tmp_path / "larger", tmp_path / "foreign")
    copy, short, foreign = (tmp_path / name for name in ("copy", "short", "foreign"))
    for mixture, message in [
        (f"{corpus}:1, {copy}:1", "are the same corpus"),
        (f"{corpus}:1, {short}:1", f"'{short}' has 4 tokens, which do not fill one row of 24"),
        (f"{corpus}:1, {foreign}:1", "build both with the same --tokenizer"),
        (f"{corpus}:1, {tmp_path / 'none'}:1", f"no corpus at '{tmp_path / 'none'}'"),
        (f"{corpus}:0, {reversed_text}:1", "must be above 0 and finite, got 0"),
        (f"{corpus}, {reversed_text}:1", "give every corpus one"),
    ]:
        with pytest.raises(TruenegError) as caught:
            pretrain(config_of("mlm", f"corpus.mixture={mixture}"), tmp_path / "run", quiet=True)
        assert message in str(caught.value)
    for settings, error, message in [
        (("corpus.temperature=0.3",), ConfigError, "corpus.temperature=0.3 is for a mixture without weights"),
        ((f"corpus.held_out={corpus}",), ConfigError, "is trained on, and measured as it is"),
        ((f"corpus.held_out={foreign}",), CorpusError, "has no split 'valid'"),
        (("corpus.held_out=x:0.1",), ConfigError, "x:0.1 has a weight, and none is used here"),
    ]:
        with pytest.raises(error, match=message):
            pretrain(mixed("mlm", *settings), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run" / "config.json").exists()


def test_cline_reads_one_corpus(tagged: Path, reversed_text: Path, tmp_path: Path) -> None:
    config = configure("electra-tiny", settings=["objective.name=cline", f"corpus.mixture={tagged}, {reversed_text}"])
    with pytest.raises(ConfigError, match=r"cline reads the tags of one corpus, and corpus\.mixture names 2"):
        pretrain(config, tmp_path / "run", quiet=True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["corpus.path=a", "corpus.mixture=b,c"], "corpus.path does nothing unless corpus.mixture is not set"),
        (["corpus.path=a", "corpus.temperature=0.3"], "corpus.temperature does nothing unless corpus.mixture is set"),
    ],
)
def test_settings_that_do_nothing_are_refused(settings: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        configure("electra-tiny", settings=settings)
