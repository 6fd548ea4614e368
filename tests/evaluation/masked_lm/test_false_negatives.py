"""Corrections found in text: which, with what probability, and the two shares of Table 2."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tiny import ConstantDetector, make_masked_lm, make_masking, make_rows, make_table, make_tokenizer
from trueneg.corruption.rows import Rows
from trueneg.detectors.table import TableDetector
from trueneg.evaluation.masked_lm.corrections import Correction, most_convincing
from trueneg.evaluation.masked_lm.false_negatives import (
    SHARES,
    FalseNegatives,
    find_false_negatives,
    part_of_speech,
)
from trueneg.lexicon.tagging import make_tagger
from trueneg.models.backbone import MaskedLanguageModel
from trueneg.objectives.mlm import MaskedLM


def find(model: MaskedLanguageModel, pairs: list[tuple[int, int]], batches: list[Rows]) -> FalseNegatives:
    detectors = {"table": TableDetector(make_table(pairs))}
    return find_false_negatives(model, objective(), detectors, batches, make_tokenizer(), torch.device("cpu"))["table"]


def objective() -> MaskedLM:
    return MaskedLM(make_masking(rate=0.3))


@pytest.fixture(scope="module")
def batches() -> list[Rows]:
    rows = [make_rows([[14], [9], [4, 5]], length=16, seed=seed, first_position=3 * seed) for seed in range(4)]
    return [replace(batch, is_whole_word=batch.is_word_start) for batch in rows]


def mispredictions(model: MaskedLanguageModel, batches: list[Rows]) -> list[tuple[int, int, float, float, bool]]:
    """(gold, predicted, p(predicted), p(gold), is a whole word) of every one, from the stock model's logits."""
    found = []
    masking = make_masking(rate=0.3)
    for rows in batches:
        batch = masking(rows)
        for row in range(len(rows.keys)):
            for slot in batch.is_masked[row].nonzero().flatten().tolist():
                position, gold = int(batch.positions[row, slot]), int(batch.gold[row, slot])
                with torch.no_grad():
                    hidden = model.encode(batch.input_ids, rows)
                    probabilities = model.logits(hidden[row, position]).softmax(-1)
                predicted = int(probabilities.argmax())
                if predicted != gold:
                    whole = bool(rows.is_whole_word[row, position])
                    found.append((gold, predicted, float(probabilities[predicted]), float(probabilities[gold]), whole))
    return found


def test_finds_every_accepted_misprediction_with_its_probabilities(batches: list[Rows]) -> None:
    model = make_masked_lm().train(False)
    wrong = mispredictions(model, batches)
    accepted = [case for case in wrong if case[4]][::2]
    pairs = sorted({(gold, predicted) for gold, predicted, *_ in accepted})
    wanted = sorted(
        ((gold, predicted, p, q) for gold, predicted, p, q, whole in wrong if whole and (gold, predicted) in pairs),
        key=lambda case: -case[2],
    )
    assert wanted
    found = find(model, pairs, batches)
    words = make_tokenizer().convert_ids_to_tokens
    assert [(c.gold, c.predicted) for c in found.corrections] == [tuple(words([g, p])) for g, p, *_ in wanted]
    for correction, (_, _, p, q) in zip(found.corrections, wanted, strict=True):
        assert correction.probability == pytest.approx(p, abs=1e-5)
        assert correction.gold_probability == pytest.approx(q, abs=1e-5)
    assert found.readings["corrected"] == pytest.approx(len(wanted) / len(wrong))
    assert 0 < found.readings["corrected_rows"] <= 1


def test_the_text_around_a_correction_is_its_own_document(batches: list[Rows]) -> None:
    model = make_masked_lm()
    pairs = [(gold, predicted) for gold, predicted, *_ in mispredictions(model.train(False), batches)]
    texts = set()
    tokenizer = make_tokenizer()
    for rows in batches:
        for ids, segments in zip(rows.input_ids, rows.segments, strict=True):
            texts |= {tokenizer.decode(ids[segments == n], skip_special_tokens=True) for n in (1, 2)}
    corrections = find(model, pairs, batches).corrections
    assert corrections
    for correction in corrections:
        assert f"{correction.before} {correction.gold} {correction.after}".strip() in texts


def test_detectors_share_predictions_and_each_counts_its_own(
    batches: list[Rows], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_masked_lm()
    num_read: list[int] = []
    encode = MaskedLanguageModel.encode
    monkeypatch.setattr(MaskedLanguageModel, "encode", lambda *args: num_read.append(1) or encode(*args))
    detectors = {name: ConstantDetector(value) for name, value in (("all", 1.0), ("half", 0.5), ("none", 0.4))}
    found = find_false_negatives(model, objective(), detectors, batches, make_tokenizer(), torch.device("cpu"))
    assert len(num_read) == len(batches)
    masked, mispredicted, corrected = found["all"].counts.T
    assert (corrected == mispredicted).all() and 0 < mispredicted.sum() <= masked.sum()
    assert found["half"].counts.tolist() == found["all"].counts.tolist()
    assert {c.credit for c in found["all"].corrections} == {1.0} and {c.credit for c in found["half"].corrections} == {
        0.5
    }
    assert found["none"].counts.tolist() == [[m, w, 0] for m, w, _ in found["all"].counts.tolist()]
    assert len(found["all"].corrections) == corrected.sum()
    assert found["all"].readings["mispredicted"] == pytest.approx(mispredicted.sum() / masked.sum())


def test_shares_have_three_denominators_and_hold_their_estimates() -> None:
    counts = np.array([[4, 3, 2], [4, 2, 0], [2, 1, 1], [6, 6, 0]] * 25)
    shares = FalseNegatives({}, [], counts).shares()
    assert list(shares) == list(SHARES)
    wanted = {"of_masked": 3 / 16, "of_mispredicted": 3 / 12, "of_rows": 2 / 4}
    for name, value in wanted.items():
        interval = shares[name]
        assert interval is not None
        assert interval.estimate == pytest.approx(value)
        assert interval.low < value < interval.high
        assert interval.num == 100
    # Half the rows have one: a binomial share of 100, whose deviation is 5 %.
    of_rows = shares["of_rows"]
    assert of_rows is not None
    assert (of_rows.low, of_rows.high) == (pytest.approx(0.40, abs=0.02), pytest.approx(0.60, abs=0.02))


def test_a_share_of_nothing_is_none_and_nothing_found_may_still_be_there() -> None:
    shares = FalseNegatives({}, [], np.array([[5, 0, 0]] * 60)).shares()
    assert shares["of_mispredicted"] is None
    assert shares["of_rows"] is not None and shares["of_masked"] is not None
    assert (shares["of_rows"].low, shares["of_rows"].high) == (0, 3 / 60)
    assert shares["of_masked"].high == 3 / 300


def test_an_empty_table_finds_nothing_and_training_mode_is_kept(batches: list[Rows]) -> None:
    model = make_masked_lm().train()
    found = find(model, [], batches)
    assert found.corrections == []
    assert found.readings["corrected"] == 0
    assert model.training


def test_the_most_convincing_has_each_pair_and_each_sentence_once() -> None:
    def correction(gold: str, predicted: str, before: str, probability: float) -> Correction:
        return Correction(gold, predicted, probability, 0.1, before, "")

    ranked = [
        correction("primary", "main", "a", 0.9),
        correction("main", "Primary", "b", 0.8),
        correction("stay", "remain", "a", 0.7),
        correction("stay", "remain", "c", 0.6),
        correction("big", "large", "d", 0.5),
    ]
    assert [c.probability for c in most_convincing(ranked, 10)] == [0.9, 0.6, 0.5]
    assert len(most_convincing(ranked, 2)) == 2
    assert ranked[0].sentence == "a [primary → main]"


def test_the_part_of_speech_is_that_of_the_word_in_its_own_sentence() -> None:
    tagger = make_tagger("pattern")
    assert part_of_speech("It was late. He likes to", "run", "home. The dog barked", tagger) == "verb"
    assert part_of_speech("It was late. He went for a", "run", "home. The dog barked", tagger) == "noun"
    assert part_of_speech("", "the", "", tagger) == "other" and part_of_speech("", "", "", tagger) == "other"
    assert part_of_speech("very " * 200 + "he spoke", "quickly", "and left " * 200, tagger) == "adverb"
