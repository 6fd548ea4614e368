"""Training with annotations: the run that judges as it goes, and no run on other annotations."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_runs import WORDNET, MakeConfig, assert_identical, cut_run, readings

from trueneg.config.codec import override
from trueneg.config.options import PretrainConfig
from trueneg.corpus.annotate import write_annotations
from trueneg.detectors.annotator import DetectorAnnotator
from trueneg.detectors.table import TableDetector
from trueneg.errors import CheckpointError, CorpusError, TruenegWarning
from trueneg.lexicon.table import cached_table
from trueneg.runs.pretraining import pretrain
from trueneg.tokenizer import load_tokenizer

Annotate = Callable[..., Path]


@pytest.fixture
def annotate(corpus: Path, tokenizer_folder: Path, tmp_path: Path) -> Annotate:
    """Write what the hand-made WordNet lists into a folder of this name."""

    def write(name: str, **options: object) -> Path:
        table = TableDetector(cached_table(load_tokenizer(tokenizer_folder), wordnet=WORDNET, forms="lemma"))
        annotator = DetectorAnnotator(table, "lexical")
        write_annotations(corpus, annotator, tmp_path / name, **{"most": table.max_substitutes, **options})
        return tmp_path / name

    return write


def annotated(config: PretrainConfig, folder: Path) -> PretrainConfig:
    return override(config, [f"objective.correction.detector=annotated:{folder}"])


@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("objective.correction.use=marginal",),
        ("corpus.pack=true", "corpus.length=40"),
        ("train.accumulation=2", "objective.correction.use=soft_targets", "objective.correction.discriminator=soft"),
    ],
    ids=["drop", "set", "packed", "accumulated"],
)
def test_a_table_written_down_trains_as_the_table_itself(
    config_of: MakeConfig, annotate: Annotate, tmp_path: Path, settings: tuple[str, ...]
) -> None:
    config = config_of("corrected", "train.steps=12", *settings)
    pretrain(config, tmp_path / "lexical", quiet=True)
    pretrain(annotated(config, annotate("notes", length=20)), tmp_path / "annotated", quiet=True)
    assert_identical(tmp_path / "lexical", tmp_path / "annotated")
    assert sum(record["corrected"] for record in readings(tmp_path / "annotated")) > 0
    assert {record["kind"] for record in readings(tmp_path / "annotated")} == {"train", "eval"}


def test_a_run_cut_and_resumed_beside_moved_annotations(
    config_of: MakeConfig, annotate: Annotate, tmp_path: Path
) -> None:
    config = annotated(config_of("corrected", "train.steps=12"), annotate("notes"))
    pretrain(config, tmp_path / "whole", quiet=True)
    cut_run(override(config, ["train.save_every=4"]), tmp_path / "cut", 7)
    moved = shutil.move(tmp_path / "notes", tmp_path / "elsewhere")
    pretrain(annotated(config, moved), tmp_path / "cut", resume=True, quiet=True)
    assert_identical(tmp_path / "whole", tmp_path / "cut")


def test_other_annotations_are_not_continued_on(config_of: MakeConfig, annotate: Annotate, tmp_path: Path) -> None:
    config = config_of("corrected", "train.steps=4")
    pretrain(annotated(config, annotate("notes")), tmp_path / "run", quiet=True)
    with pytest.raises(CheckpointError, match="was trained on other annotations"):
        pretrain(annotated(config, annotate("fewer", most=1)), tmp_path / "run", resume=True, quiet=True)
    with pytest.raises(CheckpointError, match="was trained on other annotations"):
        pretrain(config, tmp_path / "run", resume=True, quiet=True)
    threshold = annotated(config, tmp_path / "notes@0.6")
    with pytest.raises(CheckpointError, match=r"objective\.correction\.detector: annotated: -> annotated:@0\.6"):
        pretrain(threshold, tmp_path / "run", resume=True, quiet=True)


def test_a_part_annotated_is_told(config_of: MakeConfig, annotate: Annotate, tmp_path: Path) -> None:
    config = annotated(config_of("corrected", "train.steps=2"), annotate("notes", max_rows=10))
    with pytest.warns(TruenegWarning) as told:
        pretrain(config, tmp_path / "run", quiet=True)
    for warning, split in zip(told, ("train", "valid"), strict=True):
        said = rf"the annotations .*notes' cover \d\d?\.\d\d% of the split '{split}': in the rest nothing is corrected"
        assert re.fullmatch(said, str(warning.message))


def test_held_out_text_without_annotations(config_of: MakeConfig, annotate: Annotate, tmp_path: Path) -> None:
    config = annotated(config_of("corrected", "train.steps=2"), annotate("notes", splits=["train"]))
    with pytest.raises(CorpusError, match="does not annotate the split 'valid' of its corpus, only train"):
        pretrain(config, tmp_path / "run", quiet=True)
    without = replace(config, corpus=replace(config.corpus, eval_rows=0))
    assert pretrain(without, tmp_path / "run", quiet=True).step == 2
