"""Detectors against human judgement, as commands."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from command_line import World, contents, fails, trueneg, works

from trueneg import detectors
from trueneg.detectors.scorers.base import Scores, Substitution, SubstitutionScorer
from trueneg.detectors.specification import Leaf, Resources
from trueneg.evaluation.detectors.calibration import Calibration
from trueneg.lexicon import wordnet_location

TINY = Path(__file__).parents[1] / "data" / "swords" / "tiny.json"

SCORES = {
    **{"Films": 0.9, "Works of art": 0.4, "Coatings": 0.1, "remained": 0.8, "gone": 0.7, "moved": 0.2, "main": 0.85},
    **{"chief": 0.65, "blue": 0.05, "rapidly": 0.75, "slowly": 0.6, "a few": 0.3},
}


class MadeUp(SubstitutionScorer):
    """Scores by the substitute, in the form that the text needs."""

    def __init__(self) -> None:
        self.provenance = {"made": "up"}

    def scores(self, substitutions: Sequence[Substitution]) -> Scores:
        return np.array([SCORES.get(s.substitute, 0.15) for s in substitutions])


def make_scorer(leaf: Leaf, resources: Resources) -> MadeUp:
    return MadeUp()


@pytest.fixture(autouse=True)
def made_up_detector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(detectors.SCORERS.builtin, "made-up", f"{__name__}:make_scorer")


def swords(out: Path, *more: object) -> list[object]:
    return ["detect", "benchmark", "--data", TINY, "--folds", 5, "--resamples", 20, "--out", out, *more]


def test_detectors_are_measured(tmp_path: Path) -> None:
    out = tmp_path / "results"
    said = works(*swords(out, "--detector", "lexical", "--detector", "made-up", "--json"))
    lexical, made_up = said.data["rows"]
    assert (lexical["detector"], lexical["threshold_from"], lexical["threshold"]) == ("lexical", "own", 0.5)
    # WordNet's synonyms: "main" and "chief", "films", "remained", "rapidly"; four of five are accepted by most.
    assert (lexical["precision"], lexical["recall"]) == (0.8, 1.0)
    assert lexical["average_precision"] == pytest.approx(0.8)
    assert made_up["average_precision"] == 1.0
    assert made_up["threshold_from"] == "calibrated"
    assert made_up["threshold"] == 0.75
    assert (lexical["chance"], lexical["num_items"], lexical["num_targets"]) == (4 / 12, 12, 5)
    assert set(contents(out)) == {"substitution.json", "substitution.md", "precision_recall.png"}
    assert json.loads((out / "substitution.json").read_text())["rows"] == said.data["rows"]
    assert "made-up" in (out / "substitution.md").read_text()
    assert [line.partition(":")[0] for line in said.err.splitlines()] == [
        "12 substitutes of 5 words in context",
        *("lexical", "made-up"),
    ]


def test_a_report_names_all_that_the_results_were_made_with(tmp_path: Path) -> None:
    works(*swords(tmp_path / "out", "--detector", "lexical", "--no-inflect", "--precision", 0.3))
    works("report", tmp_path / "out", "--out", tmp_path / "page.html")
    options = "--threshold calibrated --precision 0.3 --folds 5 --resamples 20 --seed 0 --phrases auto --limit 0"
    page = (tmp_path / "page.html").read_text()
    assert f"trueneg detect benchmark --data {TINY.name} --detector lexical {options} --no-inflect<" in page


def test_gap(tmp_path: Path) -> None:
    """As by the formula, with the shares of those who are sure: "film" and "work of art" have 8 and 1 of 9."""
    detector = ("--detector", "made-up")
    row = works(*swords(tmp_path / "out", *detector, "--json")).data["rows"][0]
    assert row["gap"] == pytest.approx(1.0)
    assert row["gap_interval"] == pytest.approx([1.0, 1.0])
    said = works(*swords(tmp_path / "out", *detector))
    assert "100.0 [100.0, 100.0]" in said.out
    shares = [(8 / 9, 1 / 9, 0), (1 / 2, 0, 0), (2 / 3, 1 / 4, 0), (1, 0), (1 / 3,)]
    chance = 100 * np.mean([np.mean([_gap(order) for order in permutations(of)]) for of in shares])
    assert f"so chance has {chance:.1f}." in (tmp_path / "out" / "substitution.md").read_text()


def _gap(gains: Sequence[float]) -> float:
    """Kishida (2005), of gains in the order of a ranking."""
    found, ideal = (np.array(order, np.float64) for order in (gains, sorted(gains, reverse=True)))
    summed = [(v.cumsum() / np.arange(1, len(v) + 1))[v > 0].sum() for v in (found, ideal)]
    return float(summed[0] / summed[1])


def test_the_former_name_is_read(tmp_path: Path) -> None:
    command = ["detect", "swords", *swords(tmp_path / "out", "--detector", "lexical")[2:]]
    assert "verb detect swords is now called detect benchmark" in works(*command).err


def proposed(tmp_path: Path) -> Path:
    """SemEval-07 as SWORDS' converter writes it: one label an annotator, and none but what they proposed."""
    data = json.loads(TINY.read_text())
    data["targets"]["t:again"] = {**data["targets"]["t:movies"], "target": "movies", "offset": 28}
    data["substitutes"] = {
        "s:film": {"target_id": "t:movies", "substitute": "film"},
        "s:work": {"target_id": "t:movies", "substitute": "work of art"},
        "s:show": {"target_id": "t:again", "substitute": "show"},
    }
    data["substitute_labels"] = {
        "s:film": ["TRUE_IMPLICIT"] * 3,
        "s:work": ["TRUE_IMPLICIT"],
        "s:show": ["TRUE_IMPLICIT"] * 2,
    }
    path = tmp_path / "semeval07.json"
    path.write_text(json.dumps(data))
    return path


def test_proposed_substitutes_are_pooled_by_lemma(tmp_path: Path) -> None:
    """Of "movie" there are "film" and "show" everywhere, and phrases count neither way unless they are kept."""
    command = ["detect", "benchmark", "--data", proposed(tmp_path), "--folds", 2, "--resamples", 5]
    command += ["--detector", "made-up", "--out", tmp_path / "out", "--json"]
    said = works(*command)
    assert "semeval07.json: labels are implicit" in said.err
    assert "3 candidates are those of other targets of the same lemma" in said.err
    # "Films" 0.9 and "Shows" 0.15: right where "film" was proposed; "films" and "shows" are both unknown, and tie.
    assert said.data["rows"][0]["num_items"] == 6
    assert said.data["rows"][0]["gap"] == pytest.approx((1 + (1 + 1 / 2) / 2) / 2)
    kept = works(*command, "--phrases", "keep").data["rows"][0]["gap"]
    assert kept == pytest.approx((1 + (1 + 1 / 2 + 1 / 3) / 3) / 2)
    result = json.loads((tmp_path / "out" / "substitution.json").read_text())
    assert result["options"]["phrases"] == "keep"
    assert "unknown way with phrases 'no'" in fails(*command, "--phrases", "no")


def test_a_benchmark_without_labels(tmp_path: Path) -> None:
    data = json.loads(TINY.read_text())
    for labels, complaint in (({}, "has no labels"), (None, "it has no 'substitute_labels'")):
        path = tmp_path / "test.json"
        path.write_text(json.dumps({**data, "substitute_labels": labels}))
        command = ["detect", "benchmark", "--data", path, "--detector", "lexical", "--out", tmp_path / "out"]
        assert complaint in fails(*command)


def test_a_stated_threshold_is_kept(tmp_path: Path) -> None:
    detector = ("--detector", "made-up@0.62")
    row = works(*swords(tmp_path / "out", *detector, "--json")).data["rows"][0]
    assert (row["threshold"], row["threshold_from"]) == (0.62, "own")
    accepted = [word for word, score in SCORES.items() if score >= 0.62]
    assert row["precision"] == 4 / len(accepted)
    own = works(*swords(tmp_path / "out", "--detector", "made-up", "--threshold", "own", "--json")).data["rows"][0]
    assert (own["threshold"], own["threshold_from"]) == (0.5, "own")


def test_a_precise_threshold(tmp_path: Path) -> None:
    row = works(*swords(tmp_path / "out", "--detector", "made-up", "--precision", 0.55, "--json")).data["rows"][0]
    assert row["threshold"] == 0.6  # 4 of 7; at 0.4 and below it is less


def test_antonyms_are_counted(tmp_path: Path) -> None:
    """WordNet's antonyms here: "stayed" - "moved", "quickly" - "slowly"."""
    row = works(*swords(tmp_path / "out", "--detector", "made-up@0.5", "--json")).data["rows"][0]
    assert row["antonyms_accepted"] == 0.5


def test_forms_and_targets(tmp_path: Path) -> None:
    detector = ("--detector", "made-up", "--json")
    plain = works(*swords(tmp_path / "a", *detector, "--no-inflect")).data["rows"][0]
    assert plain["average_precision"] < 1  # "film" and "remain" are none of the words it knows
    some = works(*swords(tmp_path / "b", *detector, "--limit", 3, "--folds", 3, "--seed", 2)).data["rows"][0]
    assert some["num_targets"] == 3


def test_words_that_a_vocabulary_holds(world: World, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("a primary main chief went quickly and rapidly\n" * 20)
    works("tokenizer", "train", text, "--vocab-size", 200, "--out", tmp_path / "tok", "-q")
    detector = ("--detector", "made-up")
    works(*swords(tmp_path / "out", *detector, "--vocabulary", tmp_path / "tok"))
    (measured,) = json.loads((tmp_path / "out" / "substitution.json").read_text())["measured"]
    single = [reading for reading in measured["readings"] if reading["items"] == "single tokens"]
    assert [(reading["level"], reading["num_items"]) for reading in single] == [("most", 3), ("any", 3)]
    said = works(*swords(tmp_path / "out", *detector, "--vocabulary", world.tokenizer))
    assert "none of the single tokens" in said.err


def test_a_calibration_is_a_detector(tmp_path: Path) -> None:
    out = tmp_path / "new" / "made-up.json"
    command = ("detect", "calibrate", "--data", TINY, "--detector", "made-up", "--folds", 5, "--out", out)
    said = works(*command, "--precision", 0.9, "--json").data
    assert (said["threshold"], said["wanted_precision"], said["provenance"]) == (0.75, 0.9, {"made": "up"})
    saved = Calibration.load(out)
    assert (saved.threshold, saved.detector, list(saved.data)) == (0.75, "made-up", ["tiny.json"])
    measured = works(*swords(tmp_path / "results", "--detector", out, "--json"))
    row = measured.data["rows"][0]
    assert (row["threshold"], row["threshold_from"]) == (0.75, "own")
    assert f"warning: {out} was made from this data" in measured.err
    told = works(*command, "--precision", 0.9).out
    assert told.startswith("made-up accepts from 0.75 on: precision ") and str(out) in told
    assert works(*command, "--level", "any", "--best-f1", "--json").data["wanted_precision"] is None


@pytest.mark.parametrize(
    "arguments, complaint",
    [
        (["--detector", "lexcial"], "did you mean 'lexical'?"),
        (["--detector", "made-up@2"], "made-up@2"),
        (["--detector", "lexical", "--detector", "lexical"], "--detector lexical is named twice"),
        (["--detector", "lexical", "--threshold", "won"], "unknown threshold 'won': did you mean 'own'?"),
        (["--detector", "lexical", "--precision", "60"], "--precision 60.0: more than 0, at most 1"),
        (["--detector", "lexical", "--folds", "6"], "--folds 6 of 5 targets"),
        (["--detector", "lexical", "--limit", "1"], "--folds 5 of 1 targets"),
        (["--detector", "lexical", "--data", "nowhere.json"], "--data nowhere.json: no such file or folder"),
        (["--detector", "lexical", "--vocabulary", "./nowhere"], "no tokenizer at './nowhere'"),
        (["--detector", "lexical", "--wordnet", "nowhere"], "--wordnet nowhere: no such folder"),
        (
            ["--detector", "lexical", "--device", "tpux"],
            "--device must be cpu, cuda, cuda:N, xpu, xpu:N or mps, got tpux",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes(arguments: list[str], complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert complaint in fails(*swords(tmp_path / "out", *arguments))
    assert contents(tmp_path) == {}


def test_mistakes_in_calibrating(tmp_path: Path) -> None:
    command = ("detect", "calibrate", "--data", TINY, "--detector", "lexical", "--folds", 5)
    line = fails(*command, "--precision", 0.95, "--out", tmp_path / "x.json")
    assert "--precision 0.95: the best that 'lexical' reaches is 0.800" in line
    both = ("--best-f1", "--precision", 0.9, "--out", tmp_path / "x.json")
    assert "--precision does nothing beside --best-f1: leave it out" in fails(*command, *both)
    assert "did you mean 'any'?" in fails(*command, "--level", "aby", "--out", tmp_path / "x.json")
    assert "is a folder: name a file" in fails(*command, "--out", tmp_path)
    assert contents(tmp_path) == {}


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    assert "--out" in fails(*swords(tmp_path / "out", "--detector", "made-up"))
    assert (tmp_path / "out").read_text() == "mine"


def test_without_wordnet_the_rest_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "NLTK_DATA", "TRUENEG_CACHE"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.delenv("WNSEARCHDIR")
    monkeypatch.setattr(wordnet_location, "DEBIAN", tmp_path / "none")
    monkeypatch.setattr(wordnet_location, "SYSTEM_NLTK", ())
    monkeypatch.setattr(wordnet_location.sys, "prefix", str(tmp_path))
    said = works(*swords(tmp_path / "out", "--detector", "made-up", "--json"))
    assert "GAP, antonyms and sister terms are left out: WordNet not found" in said.err
    row = said.data["rows"][0]
    assert row["gap"] is None
    assert (row["antonyms_accepted"], row["sisters_accepted"], row["average_precision"]) == (None, None, 1.0)


@pytest.mark.parametrize("verb", ["benchmark", "calibrate"])
def test_what_must_be_named(verb: str) -> None:
    said = trueneg("detect", verb, "--data", TINY)
    assert said.code == 2 and "--detector" in said.err


def test_the_former_name_of_min_count_is_read_with_a_warning(world: World, tmp_path: Path) -> None:
    asked = ("detect", "prototypes", "--encoder", world.run, "--corpus", world.corpus, "--rows", 4, "--json", "--out")
    old = works(*asked, tmp_path / "old.safetensors", "--least", 2)
    assert old.data["min_count"] == "2" and "--min-count" in old.err and "--least" in old.err
    new = works(*asked, tmp_path / "new.safetensors", "--min-count", 2)
    assert new.data | {"out": ""} == old.data | {"out": ""} and "--least" not in new.err


def test_the_ends_of_documents_are_no_words(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("one two three\n\n" * 20)
    works("tokenizer", "train", text, "--vocab-size", 30, "--out", tmp_path / "tok")
    works("corpus", "build", text, "--tokenizer", tmp_path / "tok", "--out", tmp_path / "corpus")
    said = works("detect", "bigrams", "--corpus", tmp_path / "corpus", "--out", tmp_path / "b.safetensors")
    assert "4 pairs of 4 words, from 60 words of text" in said.out
