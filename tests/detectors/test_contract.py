"""What every scorer and every detector keeps to, by whatever name it is registered."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from test_learned import ASKED, SHARES
from tiny_encoders import TEXT, WORDNET, byte_level, encode_rows, wordpiece
from torch import Tensor
from transformers import PreTrainedTokenizerFast

import tiny
from trueneg.config.objective_options import CorrectionConfig
from trueneg.corruption.rows import MaskedRows
from trueneg.detectors import DETECTORS, SCORERS, make_detector, make_scorer
from trueneg.detectors.base import Detector
from trueneg.detectors.scorers.base import SubstitutionScorer
from trueneg.detectors.scorers.calibrated import KIND
from trueneg.detectors.scorers.learned import LearnedScorer
from trueneg.detectors.scorers.prototypes import Prototypes
from trueneg.detectors.specification import Leaf, Resources
from trueneg.errors import ConfigError, TruenegError
from trueneg.objectives.correction import HardCorrection
from trueneg.objectives.mlm import MaskedLM

COMBINED = [
    "lexical | contextual:E",
    "contextual:E & fits & !antonym",
    "ema & !lexical",
    "!lexical",
    "first-sense | sister",
    "(lexical | contextual:E) & !sister",
]
NAMES = sorted({*SCORERS, *DETECTORS} - {"annotated"})  # annotations belong to a corpus: see test_annotated.py
SOURCE = re.compile(r"say what it is made from, as [a-z-]+:([A-Z_]+.*)$")


@pytest.fixture(scope="module")
def sources(bert: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Something of each kind that a detector may say it is made from."""
    folder = tmp_path_factory.mktemp("sources")
    vectors, prototypes, calibration = folder / "v.txt", folder / "p.safetensors", folder / "det.json"
    words = sorted({word.lower() for text in TEXT for word in text.split()})
    matrix = np.random.default_rng(0).normal(size=(len(words), 32)).astype(np.float32)
    vectors.write_text("".join(f"{word} {' '.join(map(str, row))}\n" for word, row in zip(words, matrix, strict=True)))
    Prototypes(tuple(words), matrix, np.full(len(words), 9), {"encoder": bert, "layer": "1", "corpus": "none"}).save(
        prototypes
    )
    calibration.write_text(f'{{"kind": "{KIND}", "detector": "contextual:{bert}", "threshold": 0.2}}')
    return {
        "ENCODER": bert,
        "MASKED_LM": bert,
        "VECTORS": str(vectors),
        "FILE, written by 'trueneg detect prototypes'": str(prototypes),
        "FILE, written by 'trueneg detect calibrate'": str(calibration),
    }


def written(name: str, sources: dict[str, str]) -> str:
    """A name as a specification, made from what it says that it needs."""
    if name not in NAMES:
        return name.replace(":E", f":{sources['ENCODER']}@0.2")
    try:
        load, resources = (SCORERS if name in SCORERS else DETECTORS).load(name), Resources(wordnet=str(WORDNET))
        leaf = Leaf(name, text=name)
        load(leaf, resources) if name in SCORERS else load(leaf, wordpiece(), resources)
    except ConfigError as error:
        found = SOURCE.search(str(error))
        assert found is not None, f"{error}: Leaf.check says what a detector is made from"
        kind = next((kind for kind in sources if found[1].startswith(kind)), None)
        assert kind is not None, f"give the contract a source for {name}, which needs {found[1]}"
        return f"{name}:{sources[kind]}@0.2"
    return name


def scorer_of(name: str, sources: dict[str, str], resources: Resources) -> SubstitutionScorer:
    scorer = make_scorer(written(name, sources), resources)
    return scorer.fit(ASKED, SHARES) if isinstance(scorer, LearnedScorer) else scorer


@pytest.mark.parametrize("name", [*SCORERS, *(text for text in COMBINED if "ema" not in text)])
def test_scorers(name: str, sources: dict[str, str], resources: Resources) -> None:
    scorer = scorer_of(name, sources, resources)
    scores = scorer.scores(ASKED)
    assert scores.shape == (len(ASKED),) and scores.dtype == np.float64
    assert ((scores >= 0) & (scores <= 1)).all()
    np.testing.assert_allclose(scorer.scores(ASKED[::-1]), scores[::-1], atol=0.03)
    np.testing.assert_allclose(scorer.scores([*ASKED, *ASKED]), np.tile(scores, 2), atol=0.03)
    for nothing in (scorer.scores([]), scorer.acceptance([])):
        assert nothing.shape == (0,) and nothing.dtype == np.float64
    accepted = scorer.acceptance(ASKED) >= 0.5
    assert (accepted == (scorer.scores(ASKED) >= scorer.threshold)).all()
    assert scorer.provenance and all(isinstance(value, str) for value in scorer.provenance.values())
    scorer.to(torch.device("cpu"))


@pytest.mark.parametrize("name", [*(name for name in NAMES if name != "learned"), *COMBINED])
@pytest.mark.parametrize("kind", ["wordpiece", "byte-level"])
def test_detectors(name: str, kind: str, sources: dict[str, str]) -> None:
    tokenizer = wordpiece() if kind == "wordpiece" else byte_level()
    detector = make_detector(CorrectionConfig(detector=written(name, sources), wordnet=str(WORDNET)), tokenizer)
    model = tiny.make_masked_lm(vocab_size=len(tokenizer) + 2)  # padded beyond the tokenizer
    objective = MaskedLM(tiny.make_masking(rate=0.5), HardCorrection(detector, "marginal"))
    objective.attach(model)
    batch, predicted = batch_of(tokenizer)
    check_credit(detector, batch, predicted, len(tokenizer) + 2)
    outcome = objective(model, batch)
    outcome.terms["mlm"].backward()
    assert outcome.terms["mlm"].isfinite()
    objective.after_step(model)
    kept = {key for key in detector.state_dict() if "teacher" not in key}
    assert not kept and not any(parameter.requires_grad for parameter in detector.parameters())


def batch_of(tokenizer: PreTrainedTokenizerFast) -> tuple[MaskedRows, Tensor]:
    """Rows of text, packed ones too, and predictions of all sorts: words, gold, pieces, a padded output row."""
    rows = encode_rows(tokenizer, [[TEXT[0], TEXT[1]], [TEXT[2]], [TEXT[3]], [""]], length=64)
    batch: MaskedRows = tiny.make_masking(rate=0.5)(rows)
    generator = torch.Generator().manual_seed(0)
    predicted = torch.randint(0, len(tokenizer) + 2, batch.gold.shape, generator=generator)
    predicted[0, ::3] = batch.gold[0, ::3]
    return batch, predicted


def check_credit(detector: Detector, batch: MaskedRows, predicted: Tensor, vocab_size: int) -> None:
    credit = detector.credit(batch.gold, predicted, batch)
    assert credit.shape == batch.gold.shape and credit.dtype == torch.float32 and not credit.requires_grad
    assert ((credit >= 0) & (credit <= 1)).all()
    is_wrong = (predicted != batch.gold) & batch.is_masked
    assert not (credit * is_wrong)[~batch.is_whole_word].any()  # footnote 5
    assert torch.equal(detector.credit(batch.gold, predicted.clone(), batch), credit)
    tokens, listed = detector.propose(batch.gold, predicted, batch)[1:]
    assert tokens.shape == listed.shape and tokens.shape[:2] == batch.gold.shape
    assert tokens.dtype == torch.int64 and listed.dtype == torch.float32
    assert ((tokens >= 0) & (tokens < vocab_size)).all() and ((listed >= 0) & (listed <= 1)).all()
    assert not (listed * (tokens != batch.gold.unsqueeze(-1)))[batch.is_masked & ~batch.is_whole_word].any()
    # What lists the prediction gives it its credit.
    is_it = (tokens == predicted.unsqueeze(-1)) & (listed > 0) & is_wrong.unsqueeze(-1)
    torch.testing.assert_close((listed * is_it).amax(-1)[is_it.any(-1)], credit[is_it.any(-1)], atol=1e-5, rtol=0)


def test_every_name_says_what_it_is() -> None:
    described = DETECTORS.described() | SCORERS.described()
    assert described.keys() == {*NAMES, "annotated"} and all(len(line) > 20 for line in described.values())


@pytest.mark.parametrize("name", SCORERS)
def test_a_source_that_is_not_there_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(TruenegError) as told:
        make_scorer(f"{name}:{tmp_path}/nowhere", Resources(wordnet=str(WORDNET)))
    assert "\n" not in str(told.value) and "nowhere" in str(told.value)
