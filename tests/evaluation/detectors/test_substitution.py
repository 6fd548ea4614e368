"""Scorers against human judgements: figures that can be checked by hand, and what must not leak."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from made_up_scorers import MemorizingScorer, TableScorer, made_up_items
from trueneg.detectors.scorers.base import Scores, Substitution
from trueneg.errors import ConfigError, TruenegWarning
from trueneg.evaluation.detectors.distractors import Distractor
from trueneg.evaluation.detectors.substitution import evaluate_scorers
from trueneg.evaluation.detectors.swords import Item

generator = np.random.default_rng(0)
ITEMS = made_up_items(generator.choice([0.0, 0.0, 0.0, 0.1, 0.3, 0.5, 0.9], size=(20, 6)).tolist())
ACCEPTABILITY = np.array([item.acceptability for item in ITEMS])
WORDS = [item.substitution.substitute for item in ITEMS]
NOISY = dict(zip(WORDS, np.clip(ACCEPTABILITY / 2 + generator.random(len(ITEMS)) / 2, 0, 1).tolist(), strict=True))
YES_OR_NO = {word: float(score > 0.6) for word, score in NOISY.items()}


def wrong(target: int, word: str, kind: str = "antonyms") -> Distractor:
    return Distractor(Substitution("a word", 2, 6, word, "n"), f"t{target}", kind)  # type: ignore[arg-type]


def test_average_precision_on_every_subset() -> None:
    single = np.arange(len(ITEMS)) % 2 == 0
    result = evaluate_scorers(ITEMS, {"noisy": TableScorer(NOISY)}, single=single, resamples=20)
    scores, pos = np.array(list(NOISY.values())), np.array([item.substitution.pos for item in ITEMS])
    subsets = {"all": np.ones(len(ITEMS), np.bool_), "single tokens": single}
    subsets |= {
        name: pos == part for name, part in zip(("nouns", "verbs", "adjectives", "adverbs"), "nvar", strict=True)
    }
    (measured,) = result.measured
    assert [(r.level, r.items) for r in measured.readings] == [(lv, s) for lv in ("most", "any") for s in subsets]
    for reading in measured.readings:
        chosen = subsets[reading.items]
        right = ACCEPTABILITY[chosen] >= {"most": 0.5, "any": 0.1}[reading.level]
        assert reading.average_precision == pytest.approx(average_precision_score(right, scores[chosen]))
        assert (reading.chance, reading.num_items) == (right.mean(), chosen.sum())
        low, high = reading.intervals["average_precision"] or (1.0, 0.0)
        assert 0 <= low <= high <= 1


def test_own_thresholds() -> None:
    result = evaluate_scorers(ITEMS, {"noisy": TableScorer(NOISY, threshold=0.7)}, threshold="own", resamples=5)
    accepted, right = np.array(list(NOISY.values())) >= 0.7, ACCEPTABILITY >= 0.5
    row = result.rows()[0]
    assert (row["threshold"], row["threshold_from"]) == (0.7, "own")
    assert row["precision"] == pytest.approx((accepted & right).sum() / accepted.sum())
    assert row["recall"] == pytest.approx((accepted & right).sum() / right.sum())


def test_who_keeps_a_threshold() -> None:
    scorers = {"noisy": TableScorer(NOISY), "noisy@0.9": TableScorer(NOISY, 0.9), "lexical": TableScorer(YES_OR_NO)}
    rows = evaluate_scorers(ITEMS, scorers, keep_threshold=["noisy@0.9"], resamples=5).rows()
    assert [(row["threshold_from"], row["threshold"]) for row in rows[1:]] == [("own", 0.9), ("own", 0.5)]
    assert rows[0]["threshold_from"] == "calibrated"
    assert rows[0]["threshold"] in NOISY.values()


def test_calibrated_figures_are_those_of_held_out_targets() -> None:
    """Scores whose scale differs from target to target: what fits all of them fits none that was not seen."""
    items = made_up_items([[0.9, 0.0]] * 10)
    table = {f"s{t}.{n}": 0.1 * t + (0.05 if n else 0.0) for t in range(10) for n in range(2)}
    row = evaluate_scorers(items, {"x": TableScorer(table)}, folds=10, resamples=5).rows()[0]
    in_sample = np.array(list(table.values())) >= row["threshold"]
    right = np.array([item.acceptability >= 0.5 for item in items])
    assert row["recall"] < (in_sample & right).sum() / right.sum()


def test_a_precision_out_of_reach_accepts_nothing() -> None:
    worse = TableScorer({word: 1 - score for word, score in NOISY.items()})
    with pytest.warns(TruenegWarning, match=r"bad: no threshold has a precision of 0\.99"):
        result = evaluate_scorers(
            ITEMS, {"bad": worse, "good": TableScorer(NOISY)}, precision=0.99, resamples=5, wrong=[wrong(0, WORDS[0])]
        )
    bad, good = result.measured
    assert (bad.threshold, bad.reading().precision, bad.reading().recall) == (None, None, 0.0)
    assert bad.reading().intervals["precision"] is None
    assert bad.errors["antonyms"].num_accepted == 0
    assert good.threshold is not None


def test_a_learned_scorer_is_measured_on_what_it_has_not_seen() -> None:
    """One that learns by heart is perfect on what it knows, and no better than chance on the rest."""
    scorer = MemorizingScorer({})
    strange = [wrong(3, "strange"), wrong(5, "stranger", "sisters")]
    (measured,) = evaluate_scorers(ITEMS, {"heart": scorer}, wrong=strange, resamples=5).measured
    assert measured.is_fitted
    assert measured.reading().average_precision == measured.reading().chance
    assert len(scorer.fitted_to) == 10
    assert not any({"strange", "stranger"} & words for words in scorer.fitted_to)
    for item in ITEMS:
        of_target = {i.substitution.substitute for i in ITEMS if i.target_id == item.target_id}
        assert sum(not of_target & words for words in scorer.fitted_to) == 1


def test_a_scorer_that_has_learned_is_taken_as_it_is() -> None:
    """Its figures on the data it learned from would be too good, and that is told."""

    known = MemorizingScorer(
        dict(zip(WORDS, ACCEPTABILITY.tolist(), strict=True)), provenance={"data": "{'x': 'ab12'}"}
    )
    (measured,) = evaluate_scorers(ITEMS, {"x": known}, data={"test": "cd34"}, resamples=5).measured
    assert (measured.is_fitted, measured.reading().average_precision) == (False, 1.0)
    with pytest.warns(TruenegWarning, match="x was made from this data"):
        evaluate_scorers(ITEMS, {"x": known}, data={"renamed": "ab12"}, resamples=5)


def test_precision_at_the_recall_of_the_lexicon() -> None:
    scorers = {"noisy": TableScorer(NOISY), "lexical": TableScorer(YES_OR_NO)}
    noisy, lexical = evaluate_scorers(ITEMS, scorers, resamples=5).measured
    assert lexical.precision_at_reference_recall == lexical.reading().precision
    # The lexicon accepts what has more than 0.6: so does the other at that recall, or a little later.
    right, scores = ACCEPTABILITY >= 0.5, np.array(list(NOISY.values()))
    least = scores[right & (scores > 0.6)].min()
    assert noisy.precision_at_reference_recall == pytest.approx(right[scores >= least].mean())
    (alone,) = evaluate_scorers(ITEMS, {"noisy": TableScorer(NOISY)}, resamples=5).measured
    assert alone.precision_at_reference_recall is None


def test_wrong_words_that_are_accepted() -> None:
    words = [wrong(0, "w0"), wrong(1, "w1"), wrong(1, "w2"), wrong(2, "w3", "sisters")]
    scorer = TableScorer(NOISY | {"w0": 0.9, "w1": 0.7, "w2": 0.1, "w3": 0.69}, threshold=0.7)
    (measured,) = evaluate_scorers(ITEMS, {"x": scorer}, wrong=words, threshold="own", resamples=50).measured
    antonyms, sisters = measured.errors["antonyms"], measured.errors["sisters"]
    assert (antonyms.num, antonyms.num_accepted, antonyms.share.estimate, antonyms.share.num) == (3, 2, 2 / 3, 2)
    assert antonyms.share.low <= 2 / 3 <= antonyms.share.high
    assert (sisters.num, sisters.num_accepted, sisters.share.high) == (1, 0, 0.0)
    assert scorer.num_calls == 1


def test_differences_are_paired() -> None:
    better = {word: (9 * score + a) / 10 for (word, score), a in zip(NOISY.items(), ACCEPTABILITY, strict=True)}
    scorers = {"noisy": TableScorer(NOISY), "same": TableScorer(NOISY), "better": TableScorer(better)}
    told: list[str] = []
    first, same, other = evaluate_scorers(ITEMS, scorers, resamples=200, say=told.append).measured
    assert [line.partition(": ")[0] for line in told] == list(scorers)
    assert first.differences == {}
    assert [(d.estimate, d.low, d.high) for d in same.differences.values()] == [(0, 0, 0)] * 2
    gain = other.differences["most"]
    assert gain.estimate == other.reading().average_precision - first.reading().average_precision
    assert 0 < gain.low <= gain.estimate <= gain.high
    bounds = [measured.reading().intervals["average_precision"] or (0.0, 0.0) for measured in (first, other)]
    assert gain.high - gain.low < min(high - low for low, high in bounds)


def test_what_a_detector_had_to_cut_is_said() -> None:
    class Narrow(TableScorer):
        @property
        def counts(self) -> dict[str, int]:
            return {"texts_cut": 3 + 7 * self.num_calls, "words_cut": 2}

    said: list[str] = []
    scorers = {"narrow": Narrow(NOISY), "wide": TableScorer(NOISY)}
    narrow, wide = evaluate_scorers(ITEMS, scorers, resamples=20, say=said.append).measured
    assert narrow.counts == {"texts_cut": 7} and wide.counts == {}, "in this measurement"
    assert said[0].endswith(" s; texts cut: 7") and said[1].endswith(" s")


def test_cost_is_processor_time_of_a_substitution() -> None:
    class Slow(TableScorer):
        def scores(self, substitutions: Sequence[Substitution]) -> Scores:
            started = time.process_time()
            while time.process_time() - started < 0.05:
                pass
            time.sleep(0.5)  # waiting costs nothing
            return super().scores(substitutions)

    (slow,) = evaluate_scorers(ITEMS, {"slow": Slow(NOISY)}, resamples=20).measured
    assert slow.ms_per_substitution is not None and slow.seconds > 0.5
    assert 50 <= slow.ms_per_substitution * len(ITEMS) < 500


def test_the_result_file_holds_everything_and_repeats(tmp_path: Path) -> None:
    def measure(seed: int) -> dict[str, object]:
        scorers = {"noisy": TableScorer(NOISY, provenance={"made": "up"}), "lexical": TableScorer(YES_OR_NO)}
        result = evaluate_scorers(ITEMS, scorers, resamples=20, seed=seed, data={"a": "b"}, options={"limit": 3})
        result.save(tmp_path / "deep" / "substitution.json")
        read = json.loads((tmp_path / "deep" / "substitution.json").read_text())
        for measured in read["measured"]:
            measured.pop("seconds")
        for one in [*read["measured"], *read["rows"]]:
            assert one.pop("ms_per_substitution") > 0
        assert isinstance(read, dict)
        return read

    first, again, other = measure(0), measure(0), measure(1)
    assert first == again != other
    assert {"detector", "average_precision", "precision", "recall", "threshold"} <= set(first["rows"][0])  # type: ignore[index]
    assert (first["task"], first["data"]) == ("substitution", {"a": "b"})
    assert first["measured"][0]["provenance"] == {"made": "up"}  # type: ignore[index]
    assert first["options"] == {
        **{"threshold": "calibrated", "precision": None, "folds": 10, "resamples": 20, "seed": 0, "limit": 3}
    }


def test_items_without_anything_acceptable() -> None:
    with pytest.raises(ConfigError, match="acceptable to most"):
        evaluate_scorers(made_up_items([[0.2, 0.0]] * 10), {"x": TableScorer({})})


def test_a_part_of_speech_without_anything_acceptable_has_no_reading() -> None:
    items: list[Item] = made_up_items([[0.9, 0.0], [0.2, 0.0]] * 10, parts="nv")
    (measured,) = evaluate_scorers(items, {"x": TableScorer({"s0.0": 0.9})}, resamples=5).measured
    assert [(r.level, r.items) for r in measured.readings] == [
        *(("most", "all"), ("most", "nouns")),
        *(("any", "all"), ("any", "nouns"), ("any", "verbs")),
    ]
