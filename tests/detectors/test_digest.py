"""What a run's detector reads has a name: another encoder, vectors or WordNet has another, a moved one the same."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from test_learned import ASKED, SHARES
from tiny_encoders import WORDNET, WORDS, byte_level, wordpiece

from trueneg.config.objective_options import CorrectionConfig
from trueneg.detectors import SCORERS, make_detector, make_scorer
from trueneg.detectors.scorers.calibrated import KIND
from trueneg.detectors.scorers.learned import LearnedScorer
from trueneg.detectors.scorers.prototypes import Prototypes
from trueneg.detectors.specification import Resources
from trueneg.training.checkpoint import tables_digest

READERS = {
    "contextual": "contextual:{0}/enc@0.1",
    "teacher": "teacher:{0}/enc@0.1",
    "prototypes": "prototypes:{0}/p.safetensors[encoder={0}/enc]@0.1",
    "learned": "{0}/learned.json",
    "combined": "lexical | contextual:{0}/enc@0.1 & !antonym",
}
LEXICAL = ["first-sense", "antonym", "first-sense | antonym", "sister & !name", "hypernym"]


def digest(specification: str, wordnet: Path = WORDNET, *, is_other_tokenizer: bool = False) -> str:
    tokenizer = byte_level() if is_other_tokenizer else wordpiece()
    return tables_digest(make_detector(CorrectionConfig(detector=specification, wordnet=str(wordnet)), tokenizer))


def write_calibration(folder: Path, threshold: float = 0.4, constant: float = 0.1) -> None:
    """A fit in ``folder`` to what lies in it."""
    specification = f"learned:{folder}/enc[vectors={folder}/v.txt,teacher={folder}/enc]"
    scorer = make_scorer(specification, Resources(wordnet=str(WORDNET)))
    assert isinstance(scorer, LearnedScorer)
    parameters = dict.fromkeys(["constant", *scorer.names], constant)
    about = {"kind": KIND, "detector": specification, "threshold": threshold, "parameters": parameters}
    (folder / "learned.json").write_text(json.dumps(about))


@pytest.fixture
def folder(bert: str, tmp_path: Path) -> Path:
    """All that detectors are made from."""
    here = tmp_path / "here"
    shutil.copytree(bert, here / "enc")
    matrix = np.random.default_rng(0).normal(size=(len(WORDS), 32)).astype(np.float32)
    about = {"encoder": str(here / "enc"), "layer": "1", "corpus": "none"}
    Prototypes(tuple(WORDS), matrix, np.full(len(WORDS), 9), about).save(here / "p.safetensors")
    rows = zip(WORDS, matrix.round(3).tolist(), strict=True)
    (here / "v.txt").write_text("".join(f"{word} {' '.join(map(str, row))}\n" for word, row in rows))
    write_calibration(here)
    return here


def change_weights(folder: Path) -> None:
    path = folder / "enc" / "model.safetensors"
    tensors = load_file(path)
    name = next(name for name, tensor in sorted(tensors.items()) if "layer.0" in name and tensor.ndim > 1)
    tensors[name] = tensors[name] + torch.eye(*tensors[name].shape) * 1e-3
    save_file(tensors, path, {"format": "pt"})


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("is_other_tokenizer", [False, True], ids=["own", "other"])
def test_other_weights_have_another_digest_and_moved_ones_the_same(
    name: str, is_other_tokenizer: bool, folder: Path, tmp_path: Path
) -> None:
    before = digest(READERS[name].format(folder), is_other_tokenizer=is_other_tokenizer)
    moved = shutil.move(folder, tmp_path / "there")
    if name == "learned":
        write_calibration(moved)
    specification = READERS[name].format(moved)
    assert digest(specification, is_other_tokenizer=is_other_tokenizer) == before
    change_weights(moved)
    assert digest(specification, is_other_tokenizer=is_other_tokenizer) != before


def changed_wordnet(folder: Path) -> Path:
    """Another WordNet, which knows a word less."""
    index = shutil.copytree(WORDNET, folder) / "index.noun"
    lines = index.read_text().splitlines(keepends=True)
    index.write_text("".join(line for line in lines if not line.startswith("film ")))
    return folder


@pytest.mark.parametrize("specification", LEXICAL)
def test_another_wordnet_has_another_digest_and_a_moved_one_the_same(specification: str, tmp_path: Path) -> None:
    before = digest(specification)
    assert digest(specification, shutil.copytree(WORDNET, tmp_path / "moved")) == before
    assert digest(specification, changed_wordnet(tmp_path / "changed")) != before


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: write_calibration(folder, threshold=0.5),
        lambda folder: write_calibration(folder, constant=0.2),
        lambda folder: (folder / "v.txt").write_text((folder / "v.txt").read_text().replace("0.1", "0.2")),
    ],
    ids=["threshold", "parameters", "vectors"],
)
def test_what_a_calibrations_file_holds_or_names_counts(change: Callable[[Path], object], folder: Path) -> None:
    specification = READERS["learned"].format(folder)
    before = digest(specification)
    change(folder)
    assert digest(specification) != before


def test_a_moving_average_reads_nothing() -> None:
    assert digest("ema") == tables_digest(torch.nn.Identity())


def test_every_scorer_says_what_it_reads(folder: Path, resources: Resources) -> None:
    named = {
        **{name: name for name in SCORERS},
        **{name: READERS[name].format(folder) for name in ("contextual", "teacher", "prototypes")},
        "neighbours": f"neighbours:{folder}/v.txt",
        "learned": f"learned:{folder}/enc",
        "calibrated": f"{folder}/learned.json",
    }
    scorers = {name: make_scorer(specification, resources) for name, specification in named.items()}
    assert all(scorer.reads() for scorer in scorers.values())
    assert len({scorer.digest() for scorer in scorers.values()}) == len(SCORERS)
    fitted = scorers["learned"]
    assert isinstance(fitted, LearnedScorer) and fitted.fit(ASKED, SHARES).digest() != fitted.digest()
