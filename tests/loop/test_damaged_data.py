"""Damage to what a run reads is found before it trains a step, also when it goes on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tiny_runs import WORDNET, assert_identical, cut_run, make_config

from trueneg.config.codec import override
from trueneg.config.options import PretrainConfig
from trueneg.corpus.annotate import write_annotations
from trueneg.corpus.annotations import PARTS
from trueneg.detectors.annotator import DetectorAnnotator
from trueneg.detectors.table import TableDetector
from trueneg.errors import CorpusError
from trueneg.lexicon.table import cached_table
from trueneg.objectives import with_objective
from trueneg.runs.pretraining import pretrain
from trueneg.tokenizer import load_tokenizer
from trueneg.training.folder import METRICS


@pytest.fixture
def copied(corpus: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(corpus, tmp_path / "corpus"))


def flip(file: Path) -> None:
    """Change one bit in the middle."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def check_refused(config: PretrainConfig, out: Path, file: Path) -> None:
    flip(file)
    with pytest.raises(CorpusError, match=rf"{file.parent.name}/{file.name}' is damaged"):
        pretrain(config, out, quiet=True)
    assert not (out / METRICS).exists()


@pytest.mark.parametrize("part", ["tokens", "offsets", "words"])
@pytest.mark.parametrize("split", ["train", "valid"])
def test_a_damaged_corpus_trains_nothing(copied: Path, tmp_path: Path, split: str, part: str) -> None:
    check_refused(make_config(copied, "mlm"), tmp_path / "run", copied / split / f"00000.{part}.bin")


@pytest.mark.parametrize("part", PARTS)
def test_damaged_annotations_train_nothing(copied: Path, tmp_path: Path, part: str) -> None:
    table = TableDetector(cached_table(load_tokenizer(copied / "tokenizer"), wordnet=WORDNET))
    write_annotations(copied, DetectorAnnotator(table, "lexical"), tmp_path / "notes", most=table.max_substitutes)
    config = override(
        make_config(copied, "corrected"), [f"objective.correction.detector=annotated:{tmp_path / 'notes'}"]
    )
    check_refused(config, tmp_path / "run", tmp_path / "notes" / "train" / f"{part}.bin")


@pytest.mark.parametrize("part", ["tags", "forms"])
def test_damaged_tags_train_nothing(tagged: Path, tmp_path: Path, part: str) -> None:
    copied = Path(shutil.copytree(tagged, tmp_path / "corpus"))
    config = override(with_objective(make_config(copied, "mlm"), "cline"), [f"correction.wordnet={WORDNET}"])
    check_refused(config, tmp_path / "run", copied / "train" / f"00000.{part}.bin")


def test_a_run_goes_on_only_with_the_corpus_it_began_with(copied: Path, tmp_path: Path) -> None:
    config = make_config(copied, "mlm", "train.steps=8", "train.save_every=2")
    pretrain(config, tmp_path / "whole", quiet=True)
    cut_run(config, tmp_path / "cut", 5)
    file = copied / "train" / "00000.words.bin"
    flip(file)
    with pytest.raises(CorpusError, match=r"00000\.words\.bin' is damaged"):
        pretrain(config, tmp_path / "cut", resume=True, quiet=True)
    flip(file)
    # Whether files are verified is no part of what makes a run the same run.
    pretrain(config, tmp_path / "cut", resume=True, quiet=True, verify=False)
    assert_identical(tmp_path / "whole", tmp_path / "cut")


def test_the_hurried_may_leave_it_out(copied: Path, tmp_path: Path) -> None:
    flip(copied / "train" / "00000.words.bin")
    assert pretrain(make_config(copied, "mlm", "train.steps=2"), tmp_path / "run", quiet=True, verify=False).step == 2
