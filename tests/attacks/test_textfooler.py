"""TextFooler in a made-up world: what other implementations do there, cases worked by hand, and odd examples."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import made_up_world as world
import numpy as np
import pytest
from numpy.typing import NDArray

from trueneg.attacks.base import AdversarialExample
from trueneg.attacks.word_substitution.greedy import Place, greedy_attack
from trueneg.attacks.word_substitution.neighbours import NeighbourTable, neighbours_by_vectors
from trueneg.attacks.word_substitution.textfooler import PROFILES, TEXTFOOLER_STOP_WORDS, TextFoolerOptions, textfooler
from trueneg.errors import ConfigError, TaskError
from trueneg.lexicon.vectors import Vectors
from trueneg.tasks.text import TextExample

GOLDEN: dict[str, Any] = json.loads(Path(__file__).parents[1].joinpath("data/attacks/golden.json").read_text("utf-8"))
TEXTATTACK, JIN = PROFILES["textattack"], PROFILES["jin2019"]
ANY = TextFoolerOptions(part_of_speech="any")


class MadeUpVictim:
    num_labels = world.NUM_LABELS

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def probabilities(self, examples: Sequence[TextExample]) -> NDArray[np.float64]:
        self.asked.append([example.text for example in examples])
        return np.stack([self.of(e.text, *([] if e.second is None else [e.second])) for e in examples])

    def of(self, *parts: str) -> NDArray[np.float64]:
        return world.probabilities(*parts)


class Sums(MadeUpVictim):
    """Label 1 is as probable as the numbers in the text add up to, in hundredths; anything else counts 0."""

    num_labels = 2

    def of(self, *parts: str) -> NDArray[np.float64]:
        total = sum(int(number) for part in parts for number in re.findall(r"\d+", part)) / 100
        return np.array([1 - total, total])


class MadeUpTagger:
    name = "made up"
    provenance: Mapping[str, str] = {}

    def __call__(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        return [world.tag(words) for words in sentences]


class Letters:
    provenance: Mapping[str, str] = {}

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def __call__(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        self.asked += pairs
        return np.array([world.angle(*pair) for pair in pairs])


def made_up_neighbours() -> NeighbourTable:
    near = world.neighbours()
    return NeighbourTable.of(
        {word: [str(other) for other, _ in found] for word, found in near.items()},
        {word: [float(cosine) for _, cosine in found] for word, found in near.items()},
    )


def made_up_examples(*, is_plain: bool) -> list[TextExample]:
    return [
        TextExample(str(n), text, second, world.label_of(n, text, *([] if second is None else [second])))
        for n, (text, second) in enumerate(world.texts(is_plain=is_plain))
    ]


def run(
    examples: Sequence[TextExample], options: TextFoolerOptions, **others: Any
) -> list[AdversarialExample[TextExample]]:
    given = {"neighbours": made_up_neighbours(), "tagger": MadeUpTagger(), "similarity": Letters(), **others}
    return textfooler(given.pop("victim", None) or MadeUpVictim(), examples, options=options, **given)


def shown(adversaries: Sequence[AdversarialExample[TextExample]]) -> list[dict[str, Any]]:
    return [
        {"text": a.adversarial.text, "second": a.adversarial.second, "queries": a.num_queries, "outcome": a.outcome}
        for a in adversaries
    ]


def attacked(text: str, near: Mapping[str, Sequence[str]], options: TextFoolerOptions = ANY, **others: Any) -> Any:
    """One example of label 1 against ``Sums``."""
    table = NeighbourTable.of(near)
    (adversary,) = run([TextExample("0", text, label=1)], options, victim=Sums(), neighbours=table, **others)
    return adversary


@pytest.mark.parametrize("golden", ["textattack", "textattack, similar", "jin2019, similar"])
@pytest.mark.parametrize("at_once", [1, 5, 100])
def test_trajectories_are_those_of_the_published_implementations(golden: str, at_once: int) -> None:
    is_jin = golden.startswith("jin")
    examples = [e for e in made_up_examples(is_plain=is_jin) if not is_jin or e.second is None]
    similarity = Letters() if "similar" in golden else None
    found = run(examples, JIN if is_jin else TEXTATTACK, similarity=similarity, at_once=at_once)
    assert shown(found) == GOLDEN[golden]
    assert {"succeeded", "failed", "skipped"} == {adversary.outcome for adversary in found}


def test_the_most_important_word_is_replaced_first_and_case_and_punctuation_stay() -> None:
    found = attacked("'20', 50!", {"50": ["10"], "20": ["1"]})
    assert found.adversarial.text == "'20', 10!" and found.outcome == "succeeded"
    assert found.notes == {"changed": [[1, "50", "10"]], "predicted": 0}
    # The text, two words deleted, one candidate.
    assert found.num_queries == 4


def test_what_lowers_the_probability_stays_even_if_the_attack_fails() -> None:
    found = attacked("50 20 20", {"50": ["60", "45"], "20": ["30", "25"]})
    assert found.outcome == "failed" and found.adversarial.text == "45 20 20"
    assert found.notes == {"changed": [[0, "50", "45"]], "predicted": 1}
    assert found.num_queries == 1 + 3 + 2 + 2 + 2


def test_a_candidate_may_be_worse_than_the_text_as_it_is_only_for_the_authors() -> None:
    near = {"50": ["35"], "20": ["30"]}
    assert attacked("50 20", near).adversarial.text == "35 20"
    # 35 + 30 is less than 50 + 20, though not less than 35 + 20.
    jin = replace(JIN, part_of_speech="any")
    assert attacked("50 20", near, jin).adversarial.text == "35 30"


def test_of_those_that_succeed_the_most_similar_is_taken() -> None:
    class Alike(Letters):
        def __call__(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
            return np.array([{"10 a": 0.3, "20 a": 0.2, "30 a": 0.2, "40 a": 0.6}[text] for _, text in pairs])

    near = {"60": ["10", "40", "30", "20"]}
    everywhere = replace(ANY, max_angle_short=0.5)
    found = attacked("60 a", near, everywhere, similarity=Alike())
    # Of equals the one with the lower probability; the one beyond the limit is not asked about.
    assert found.adversarial.text == "20 a" and found.num_queries == 1 + 1 + 3
    jin = replace(JIN, part_of_speech="any", max_angle_short=0.5)
    found = attacked("60 a", near, jin, similarity=Alike())
    # Of equals the nearest neighbour; all words are ranked, and all candidates count.
    assert found.adversarial.text == "30 a" and found.num_queries == 1 + 2 + 4


class Told(MadeUpVictim):
    """Three labels, as probable for a text as it is told."""

    def __init__(self, told: Mapping[str, Sequence[float]]) -> None:
        super().__init__()
        self.told = told

    def of(self, *parts: str) -> NDArray[np.float64]:
        return np.array(self.told[parts[0]])


def test_textattack_looks_for_the_most_similar_only_down_to_the_first_that_does_not_succeed() -> None:
    told = {"a": [0.9, 0.1, 0], "": [0.9, 0.1, 0], "b": [0.2, 0.8, 0], "c": [0.36, 0.34, 0.3], "d": [0.38, 0.5, 0.12]}
    angles = {"b": 0.3, "c": 0.2, "d": 0.1}

    class Alike(Letters):
        def __call__(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
            return np.array([angles[text] for _, text in pairs])

    table = NeighbourTable.of({"a": ["b", "c", "d"]})
    example, everywhere = TextExample("0", "a", label=0), {"part_of_speech": "any", "stop_words": frozenset()}
    for options, taken in ((TEXTATTACK, "b"), (JIN, "d")):
        options = replace(options, max_angle_short=1.0, unknown="a", **everywhere)
        (found,) = run([example], options, victim=Told(told), neighbours=table, similarity=Alike())
        assert found.adversarial.text == taken


def test_of_equals_textattack_takes_the_first_of_the_alphabet_and_the_authors_the_nearest() -> None:
    near = {"60": ["z55", "a55"]}
    assert attacked("60", near).adversarial.text == "a55"
    assert attacked("60", near, replace(JIN, part_of_speech="any"), similarity=None).adversarial.text == "z55"


def test_the_authors_rank_a_word_higher_if_the_label_changes_without_it() -> None:
    told = {"x y": [0.5, 0.3, 0.2], "<oov> y": [0.38, 0.32, 0.3], "x <oov>": [0.4, 0.6, 0]}
    told |= {"z y": [0.0, 0.1, 0.9], "x z": [0.0, 0.9, 0.1]}
    table = NeighbourTable.of({"x": ["z"], "y": ["z"]})
    options = replace(JIN, part_of_speech="any", stop_words=frozenset())
    (found,) = run([TextExample("0", "x y", label=0)], options, victim=Told(told), neighbours=table, similarity=None)
    # x takes 0.12; y takes 0.1 and gives the other label 0.3.
    assert found.adversarial.text == "x z"


def test_the_window_is_the_words_around_the_change() -> None:
    words = [f"w{letter}" for letter in "abcdefghijklmnopqrst"]
    for place, (first, last) in {0: (0, 14), 6: (0, 14), 7: (0, 14), 9: (2, 16), 13: (5, 19), 19: (5, 19)}.items():
        text = " ".join([*words[:place], "60", *words[place + 1 :]])
        similarity = Letters()
        attacked(text, {"60": ["50"]}, similarity=similarity)
        before = text.split()[first : last + 1]
        assert similarity.asked == [(" ".join(before), " ".join(before).replace("60", "50"))], place


def test_texts_shorter_than_the_window_are_not_compared_by_textattack() -> None:
    similarity = Letters()
    attacked("60" + 13 * " a", {"60": ["50"]}, similarity=similarity)
    assert not similarity.asked
    attacked("60" + 14 * " a", {"60": ["50"]}, similarity=similarity)
    assert len(similarity.asked) == 1
    similarity = Letters()
    attacked("60 a b c", {"60": ["50"]}, replace(JIN, part_of_speech="any"), similarity=similarity)
    assert similarity.asked == [("60 a b c", "50 a b c")]


def test_parts_of_speech_are_told_among_the_words_of_the_original() -> None:
    class Recorder(MadeUpTagger):
        def __call__(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
            asked.extend(map(tuple, sentences))
            return [["NN" if word != "30" else "JJ" for word in words] for words in sentences]

    asked: list[tuple[str, ...]] = []
    text = "b c d 40 e 60 f g h i j k"
    found = attacked(text, {"60": ["59", "30"], "40": ["39"]}, TEXTATTACK, tagger=Recorder())
    assert [len(words) for words in asked] == [8, 8, 8, 7, 7]
    assert asked[:2] == [("c", "d", "40", "e", word, "f", "g", "h") for word in ("60", "59")]
    assert asked[-1] == ("b", "c", "d", "39", "e", "60", "f")
    assert found.notes["changed"] == [[3, "40", "39"], [5, "60", "59"]]


@pytest.mark.parametrize(("length", "seen"), [(10, 10), (11, 9)])
def test_the_authors_tag_candidates_in_the_text_as_it_is(length: int, seen: int) -> None:
    class Recorder(MadeUpTagger):
        def __call__(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
            asked.extend(map(tuple, sentences))
            return [["NN"] * len(words) for words in sentences]

    asked: list[tuple[str, ...]] = []
    words = [*"bcdef", "60", "40", *"ghij"][:length]
    attacked(" ".join(words), {"60": ["59"], "40": ["39"]}, JIN, tagger=Recorder())
    assert asked[0] == tuple(words)
    assert [len(sentence) for sentence in asked[1:]] == [seen, seen]
    # The second is tagged with the first replaced.
    assert "59" in asked[1] and {"59", "39"} <= set(asked[2])


def test_stop_words_and_words_without_neighbours_stay() -> None:
    found = attacked("the 60 b", {"the": ["0"], "60": []})
    assert found.outcome == "failed" and found.adversarial == found.original
    # "the" is not even ranked.
    assert found.num_queries == 1 + 2
    assert len(TEXTFOOLER_STOP_WORDS) == 266
    table = NeighbourTable.of({"the": ["0"], "60": ["60"]})
    jin = replace(JIN, part_of_speech="any")
    # The text, two words unknown, and to TextAttack a candidate for a word with a capital.
    assert attacked("The 60", {"the": ["0"]}, jin).num_queries == 1 + 2
    assert attacked("The 60", {"the": ["0"]}).num_queries == 1 + 2 + 1
    (found,) = run([TextExample("0", "60", label=1)], ANY, victim=Sums(), neighbours=table)
    assert found.num_queries == 2


@pytest.mark.parametrize("options", [ANY, replace(JIN, part_of_speech="any")])
@pytest.mark.parametrize(("text", "changed"), {"": "", "  ": "  ", "--": "--", "60": "10", "- 60": "- 10"}.items())
def test_texts_of_one_word_or_none(text: str, changed: str, options: TextFoolerOptions) -> None:
    example = TextExample("0", text, label=int("60" in text))
    (found,) = run([example], options, victim=Sums(), neighbours=NeighbourTable.of({"60": ["10"]}))
    assert (found.outcome, found.adversarial.text) == ("succeeded" if "60" in text else "failed", changed)
    assert found.num_queries == (3 if "60" in text else 1)


def test_an_example_that_the_victim_has_wrong_is_skipped() -> None:
    wrong = TextExample("0", "60 b", label=0)
    for options, num_queries in ((ANY, 1), (replace(JIN, part_of_speech="any"), 0)):
        (found,) = run([wrong], options, victim=Sums())
        assert (found.outcome, found.num_queries, found.adversarial) == ("skipped", num_queries, wrong)
        assert found.notes == {"changed": [], "predicted": 1}


def test_only_the_second_text_of_a_pair_is_attacked() -> None:
    pair = TextExample("0", "30, a", "(40) b", label=1, group="g")
    table = NeighbourTable.of({"30": ["10"], "40": ["39"]})

    def changed(**options: Any) -> TextExample:
        (found,) = run([pair], replace(ANY, **options), victim=Sums(), neighbours=table)
        assert found.original is pair
        return found.adversarial

    assert changed() == replace(pair, second="(39) b")
    assert changed(attacked="first") == replace(pair, text="10, a")
    assert changed(attacked="both") == replace(pair, text="10, a", second="(39) b")
    assert changed(pair_is_context=False) == replace(pair, second="(39) b")
    assert changed(pair_is_context=False, attacked="first") == replace(pair, text="10, a")


@pytest.mark.parametrize("label", [None, 2, -1, 0.5])
def test_labels_that_are_not_the_victims_are_refused(label: Any) -> None:
    with pytest.raises(TaskError, match="'bad'"):
        run([TextExample("good", "60", label=1), TextExample("bad", "60", label=label)], ANY, victim=Sums())


def test_a_tagger_is_asked_for_where_one_is_needed() -> None:
    with pytest.raises(ConfigError, match="tagger"):
        run([TextExample("0", "60", label=1)], TEXTATTACK, tagger=None)
    assert attacked("60", {"60": ["10"]}, tagger=None).outcome == "succeeded"


def test_progress_and_an_empty_list() -> None:
    told: list[tuple[int, int]] = []
    run(made_up_examples(is_plain=True)[:5], TEXTATTACK, at_once=2, progress=lambda *args: told.append(args))
    assert told == [(n, 5) for n in range(1, 6)]
    assert run([], TEXTATTACK) == []


@pytest.mark.parametrize("options", [TEXTATTACK, JIN])
def test_an_example_does_not_depend_on_what_is_attacked_beside_it(options: TextFoolerOptions) -> None:
    examples = made_up_examples(is_plain=False)
    alone = [run([example], options)[0] for example in examples]
    assert run(examples, options, at_once=7) == alone
    assert run(examples[::-1], options, at_once=4) == alone[::-1]


def test_questions_of_many_examples_are_asked_together() -> None:
    examples = made_up_examples(is_plain=False)
    victim, alone = MadeUpVictim(), MadeUpVictim()
    run(examples, TEXTATTACK, victim=victim)
    run(examples, TEXTATTACK, victim=alone, at_once=1)
    assert sum(map(len, victim.asked)) == sum(map(len, alone.asked))
    assert len(victim.asked) * 5 < len(alone.asked)


def test_candidates_can_come_from_anywhere_and_see_what_has_changed() -> None:
    seen = []

    def halved(places: Sequence[Place]) -> list[list[str]]:
        seen.extend((place.current.text, place.word) for place in places)
        return [[str(int(place.word) // 2)] for place in places]

    (found,) = greedy_attack(Sums(), [TextExample("0", "50 40", label=1)], halved, options=ANY)
    assert found.adversarial.text == "25 20" and seen == [("50 40", "50"), ("25 40", "40")]


@pytest.mark.parametrize("options", [TEXTATTACK, JIN])
def test_vectors_do_as_well_as_a_table_of_them(options: TextFoolerOptions) -> None:
    matrix = np.random.default_rng(3).normal(size=(len(world.WORDS), 4))
    vectors = Vectors.of(world.WORDS, matrix, {})
    examples = made_up_examples(is_plain=False)
    found = run(examples, options, neighbours=vectors)
    assert found == run(examples, options, neighbours=neighbours_by_vectors(vectors, num=50, min_cosine=0.5))
    assert sum(adversary.outcome == "succeeded" for adversary in found) > 5


def test_options_are_described_as_json() -> None:
    described = JIN.described()
    assert json.loads(json.dumps(described)) == described
    assert described["stop_words"].startswith("266 words, ") and described["max_angle_short"] == 0.9
    assert replace(JIN, stop_words=frozenset()).described()["stop_words"] != described["stop_words"]
