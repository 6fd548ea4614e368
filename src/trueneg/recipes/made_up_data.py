"""Made-up data in the released formats of all data in the papers' experiments: recipes run on it in minutes.

A *scene* has a group of synonyms for each kind of word, and a sentence describes it with words from these groups. So
paraphrases use synonyms, contradictions use antonyms, and every label follows from the words.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trueneg.errors import ConfigError
from trueneg.files.tree import files_below
from trueneg.files.whole import replace_folder, write_whole

README = "README.txt"

_GROUPS: Mapping[str, Sequence[Sequence[str]]] = {
    kind: [group.split() for group in groups.split("/")]
    for kind, groups in {
        "mood": "happy glad cheerful / unhappy sad",
        "size": "large big / small little",
        "speed": "quickly rapidly / slowly",
        "motion": "stay remain rest / move go",
        "being": "animal beast / father dad / mouse",
        "place": "city metropolis / town / harbour / village",
        "work": "movie film picture / show performance",
        "see": "see notice",
        "main": "main primary chief",
        "topic": "nation country / game match / market trade / computer machine",
    }.items()
}
_OTHER_WORDS = "the will near we a about they in and for days went to who does how many should ."
_PEOPLE = ("Anna Smith", "Peter Brown", "Maria Garcia", "John Miller", "Laura Wilson")
_CITIES = ("Paris", "Rome", "London", "Berlin", "Vienna")

_SCENE = "The {mood} {being} will {motion} near the {size} {place}."
_QUESTION = "Will the {mood} {being} {motion} near the {size} {place}?"
_REVIEW = "We {see} the {mood} {work} about the {size} {place}."
_WALK = "They {motion} {speed} in the {main} {place} and {see} the {size} {being}."
_NEWS = "We {see} the {size} {topic} and the {main} {topic}."
_CLAIM = "The {being} should {motion} near the {place}."

_DIFFERENCE = {"entailment": "", "contradiction": "motion", "neutral": "being"}
"""Relation of two scenes to the kind of words in which they differ."""
_RELATIONS = tuple(_DIFFERENCE)
_WITHHELD = ("label", "Quality", "score", "is_duplicate", "label1", "gold_label", "source", "original")
"""Columns that GLUE's test files lack."""

Scene = Mapping[str, int]
Row = dict[str, object]


def made_up_data(folder: str | Path, *, num: int = 24, seed: int = 0) -> Path:
    """Write a folder of made-up data, laid out as the ``--data`` folder of recipes.

    It holds ``corpus/``, ``wikitext/``, ``glue/``, ``squad/``, ``cline_eval/`` (including contrast sets), ``vectors/``,
    ``substitution/``.

    Args:
        folder: A new folder, or one that this function wrote, which is replaced.
        num: Training examples of each task, 12 or more; dev and test splits have half as many.
        seed: Random seed; the same seed writes the same bytes.

    Returns:
        The folder.

    Raises:
        ConfigError: for a smaller ``num``, or a folder that holds something else.
        OSError: if writing fails.
    """
    folder = Path(folder)
    if num < 12:
        raise ConfigError(f"num must be at least 12, got {num}")
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not (folder / README).is_file())):
        raise ConfigError(f"'{folder}' holds something else than made-up data: name a new folder")
    rng, sizes = random.Random(seed), {"train": num, "dev": num // 2, "test": num // 2}
    files = {README: "Made-up data: sentences put together from a few words. Written by trueneg.\n"}
    files |= _texts(rng, num) | _glue(rng, sizes) | _squad(rng, sizes)
    # Drawn from a separate random stream, so that the other data do not change.
    files |= _swords(random.Random(seed), sizes["dev"])
    files |= {f"cline_eval/{name}": text for name, text in (_cline(rng, sizes) | _contrast_sets(rng, sizes)).items()}

    if {str(path.relative_to(folder)): path.read_bytes() for path in files_below(folder)} == {
        name: text.encode() for name, text in files.items()
    }:
        return folder  # untouched: jobs of another process may read it

    def fill(new: Path) -> None:
        for name, text in files.items():
            (new / name).parent.mkdir(parents=True, exist_ok=True)
            write_whole(new / name, text)

    replace_folder(folder, fill)
    return folder


def _draw(rng: random.Random) -> Scene:
    return {kind: rng.randrange(len(groups)) for kind, groups in _GROUPS.items()}


def _related(scene: Scene, relation: str) -> Scene:
    """Make a scene that is entailed by another one, contradicts it, or is neutral to it."""
    kind = _DIFFERENCE[relation]
    return {**scene, kind: (scene[kind] + 1) % len(_GROUPS[kind])} if kind else scene


def _say(rng: random.Random, template: str, scene: Scene | None = None, **groups: int) -> str:
    """Describe a scene (by default, a random one) in random words; ``groups`` override the scene's."""
    chosen = {**(scene or _draw(rng)), **groups}
    return template.format(**{kind: rng.choice(_GROUPS[kind][group]) for kind, group in chosen.items()})


def _pair(rng: random.Random, relation: str, first: str = _SCENE, second: str = _SCENE) -> tuple[str, str]:
    scene = _draw(rng)
    return _say(rng, first, scene), _say(rng, second, _related(scene, relation))


def _reviews(rng: random.Random, mood: int) -> tuple[str, str]:
    """Make a review with a mood, and the same review with the opposite mood."""
    drawn = [_say(rng, _REVIEW.replace("{mood}", "{{mood}}")) for _ in range(3)]
    one, other = (
        "<br /><br />".join(sentence.format(mood=rng.choice(_GROUPS["mood"][which])) for sentence in drawn)
        for which in (mood, 1 - mood)
    )
    return one, other


def _spaced(text: str) -> str:
    return text.replace(".", " .")


def _table(rows: Sequence[Row]) -> str:
    return "".join("\t".join(map(str, line)) + "\n" for line in [rows[0], *(row.values() for row in rows)])


def _csv(rows: Sequence[Sequence[object]]) -> str:
    return "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows)


def _json_lines(rows: Sequence[Row]) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def _texts(rng: random.Random, num: int) -> dict[str, str]:
    templates = (_SCENE, _QUESTION, _REVIEW, _WALK, _NEWS, _CLAIM)
    documents = [" ".join(_say(rng, rng.choice(templates)) for _ in range(5)) for _ in range(4 * num)]
    articles = [
        f" \n = {title} = \n \n {' '.join(_spaced(_say(rng, text)) for text in (_SCENE, _WALK, _REVIEW))} \n"
        for title in (*_PEOPLE, *_CITIES)
    ]
    others = dict.fromkeys(" ".join((_OTHER_WORDS, *_PEOPLE, *_CITIES)).lower().split())
    vectors = []
    for group in [group for groups in _GROUPS.values() for group in groups] + [[word] for word in others]:
        centre = [rng.gauss(0, 1) for _ in range(50)]  # near those of its group, far from all others
        vectors += [" ".join([word, *(f"{value + rng.gauss(0, 0.2):.4f}" for value in centre)]) for word in group]
    return {
        "corpus/made-up.txt": "\n\n".join(documents) + "\n",
        "wikitext/wiki.test.raw": "".join(articles),
        "vectors/made-up.50d.txt": "\n".join(vectors) + "\n",
    }


def _glue(rng: random.Random, sizes: Mapping[str, int]) -> dict[str, str]:
    files = {}
    for name in ("train", "dev", "test", "dev_mismatched", "test_mismatched"):
        split = name.split("_")[0]
        rows = [_glue_rows(rng, n) for n in range(sizes[split])]
        for task in rows[0] if name == split else ("MNLI",):
            table = [row[task] for row in rows]
            if split == "test":
                kept = [column for column in table[0] if column not in _WITHHELD]
                table = [{"index": n} | {column: row[column] for column in kept} for n, row in enumerate(table)]
            text = _table(table)
            if task == "CoLA" and split != "test":
                text = text.partition("\n")[2]  # released without a header
            file = f"{name}_matched" if task == "MNLI" and name in ("dev", "test") else name
            files[f"glue/{task}/{file}.tsv"] = text
    return files


def _glue_rows(rng: random.Random, n: int) -> dict[str, Row]:
    """Make example ``n`` of each task."""
    relation, other = _RELATIONS[n % 3], _RELATIONS[n % 2]
    is_same, entails = 1 - n % 2, ("entailment", "not_entailment")[n % 2]
    words = _say(rng, _SCENE)[:-1].split()
    same, asked, said = (_pair(rng, other, *of) for of in ((), (_QUESTION, _QUESTION), (_QUESTION, _SCENE)))
    premise, hypothesis = _pair(rng, relation)
    unknown = dict.fromkeys(("genre", "filename", "year", "old_index", "source1", "source2"), "none")
    parses = dict.fromkeys((f"sentence{i}_{parse}" for parse in ("binary_parse", "parse") for i in (1, 2)), "n/a")
    inference: Row = {"sentence1": premise, "sentence2": hypothesis}
    return {
        "CoLA": {"source": "made", "label": is_same, "original": "*" * (n % 2)}
        | {"sentence": " ".join(words if is_same else words[::-1]) + "."},
        "SST-2": {"sentence": _spaced(_say(rng, _REVIEW, mood=n % 2)).lower(), "label": is_same},
        "MRPC": {"Quality": is_same, "#1 ID": 2 * n, "#2 ID": 2 * n + 1, "#1 String": same[0], "#2 String": same[1]},
        "STS-B": {"index": n, **unknown, **inference, "score": (5.0, 2.5, 0.5)[n % 3]},
        "QQP": {"id": n, "qid1": 2 * n, "qid2": 2 * n + 1, "question1": asked[0], "question2": asked[1]}
        | {"is_duplicate": is_same},
        "MNLI": {"index": n, "promptID": n, "pairID": f"{n}{relation[0]}", "genre": "made", **parses, **inference}
        | {"label1": relation, "gold_label": relation},
        "QNLI": {"index": n, "question": said[0], "sentence": said[1], "label": entails},
        "RTE": {"index": n, "sentence1": same[0], "sentence2": same[1], "label": entails},
    }


def _swords(rng: random.Random, num: int) -> dict[str, str]:
    """Make judgements of substitutes: ten of ten accept a synonym, four an adjective's antonym, nobody another word."""
    data: dict[str, dict[str, Any]] = {"contexts": {}, "targets": {}, "substitutes": {}, "substitute_labels": {}}
    parts = {"mood": "ADJ", "size": "ADJ", "being": "NOUN", "place": "NOUN", "motion": "VERB"}
    for n, (kind, part) in zip(range(num), itertools.cycle(parts.items()), strict=False):
        scene = _draw(rng)
        fields = {other: rng.choice(_GROUPS[other][group]) for other, group in scene.items()}
        before = _SCENE.partition(f"{{{kind}}}")[0].format(**fields)
        text, word = _SCENE.format(**fields), fields[kind]
        data["contexts"][f"c{n}"] = {"context": text}
        data["targets"][f"t{n}"] = {"context_id": f"c{n}", "target": word, "offset": len(before), "pos": part}
        for number, group in enumerate(_GROUPS[kind]):
            accepting = 10 if number == scene[kind] else 4 if part == "ADJ" else 0
            for other in (one for one in group if one != word):
                data["substitutes"][f"s{n}-{other}"] = {"target_id": f"t{n}", "substitute": other}
                data["substitute_labels"][f"s{n}-{other}"] = ["TRUE"] * accepting + ["FALSE"] * (10 - accepting)
    return {"substitution/swords-made-up_dev.json": json.dumps({**data, "substitutes_lemmatized": True}) + "\n"}


def _squad(rng: random.Random, sizes: Mapping[str, int]) -> dict[str, str]:
    files = {}
    for split in ("train", "dev"):
        paragraphs = []
        for number in range(sizes[split] // 2):
            scene, who, city = _draw(rng), rng.choice(_PEOPLE), rng.choice(_CITIES)
            year, days = str(rng.randint(1900, 1999)), str(rng.randint(20, 99))
            stays = _say(rng, _SCENE, scene)[:-1]
            context = (
                f"{who} went to {city} in {year}. {stays} for {days} days. {_say(rng, _REVIEW)} {_say(rng, _WALK)}"
            )
            answers = {
                f"Who went to {city} in {year}?": who,
                f"Which city did {who} go to in {year}?": city,
                f"How many days {_say(rng, _QUESTION, scene).replace('Will', 'will')}": days,
            }
            questions = [
                {"id": f"{split}-{number}-{n}", "question": question}
                | {"answers": [{"text": answer, "answer_start": f" {context}".index(f" {answer}")}]}
                for n, (question, answer) in enumerate(answers.items())
            ]
            paragraphs.append({"context": context, "qas": questions})
        articles = [{"title": f"Made_up_{split}", "paragraphs": paragraphs}]
        files[f"squad/{split}-v1.1.json"] = json.dumps({"version": "1.1", "data": articles}, indent=1) + "\n"
    return files


def _cline(rng: random.Random, sizes: Mapping[str, int]) -> dict[str, str]:
    files: dict[str, str] = {}
    claims: list[Row] = []
    pool: list[Row] = []
    split_of: dict[str, str] = {}
    for split, num in sizes.items():
        for n in range(0 if split == "dev" else num):
            name = f"aclImdb/{split}/{('pos', 'neg')[n % 2]}/{n // 2}_{rng.randint(1, 4) + 6 * (1 - n % 2)}.txt"
            files[name] = _reviews(rng, n % 2)[0]
        if split != "dev":
            templates = ("The {size} {topic}", _NEWS)
            rows = [(n % 4 + 1, *(_say(rng, text, topic=n % 4) for text in templates)) for n in range(num)]
            files[f"ag_news_csv/{split}.csv"] = _csv(rows)
        inferences = [(f"{split}{n}", _RELATIONS[n % 3], *_pair(rng, _RELATIONS[n % 3])) for n in range(num)]
        columns = ("pairID", "gold_label", "sentence1", "sentence2")
        files[f"snli/snli_1.0_{split}.jsonl"] = _json_lines(
            [dict(zip(columns, row, strict=True)) for row in inferences]
        )
        asked = [_pair(rng, _RELATIONS[n % 2], _QUESTION, _SCENE) for n in range(num)]
        answers: list[Row] = [{"answer": n % 2 == 0} if split != "test" else {} for n in range(num)]
        files[f"boolq/{split}.jsonl"] = _json_lines(
            [
                {"question": question[:-1].lower(), "title": "Made up", "passage": f"{passage} {_say(rng, _WALK)}"}
                | answer
                for (question, passage), answer in zip(asked, answers, strict=True)
            ]
        )
        for n in range(num):
            claim, perspective = _pair(rng, _RELATIONS[n % 2], _CLAIM, _SCENE)
            stance = ("SUPPORT", "UNDERMINE")[n % 2]
            clusters = [{"stance_label_3": stance, "pids": [len(pool)]}]
            split_of[str(len(claims))] = split
            claims.append({"cId": len(claims), "text": claim, "perspectives": clusters})
            pool.append({"pId": len(pool), "text": perspective})
    for mood, side in enumerate(("pos", "neg")):
        files[f"rt-polaritydata/rt-polarity.{side}"] = "".join(
            f"{_spaced(_say(rng, _REVIEW, mood=mood)).lower()} \n" for _ in range(sizes["train"])
        )
    written = {"perspectrum_with_answers": claims, "dataset_split": split_of, "perspective_pool": pool}
    return files | {f"perspectrum/data/dataset/{name}_v1.0.json": json.dumps(of) for name, of in written.items()}


def _contrast_sets(rng: random.Random, sizes: Mapping[str, int]) -> dict[str, str]:
    files: dict[str, str] = {}
    for split in ("dev", "test"):
        moods = [n % 2 for n in range(sizes[split])]
        reviews = zip(*(_reviews(rng, mood) for mood in moods), strict=True)
        for turned, (kind, texts) in enumerate(zip(("original", "contrast"), reviews, strict=True)):
            sides = [("Positive", "Negative")[mood ^ turned] for mood in moods]
            table: list[Row] = [{"Sentiment": side, "Text": text} for side, text in zip(sides, texts, strict=True)]
            files[f"contrast-sets/IMDb/data/{split}_{kind}.tsv"] = _table(table)
        inferences: dict[str, list[Row]] = {"original": [], "revised_premise": [], "revised_hypothesis": []}
        for n in range(sizes[split]):
            scene, relation = _draw(rng), _RELATIONS[n % 3]
            meant = _related(scene, relation)
            premise, hypothesis = _say(rng, _SCENE, scene), _say(rng, _SCENE, meant)
            revisions = [("original", premise, hypothesis, relation)]
            for new in (new for new in _RELATIONS if new != relation):
                revisions.append(("revised_premise", _say(rng, _SCENE, _related(meant, new)), hypothesis, new))
                revisions.append(("revised_hypothesis", premise, _say(rng, _SCENE, _related(scene, new)), new))
            for kind, first, second, label in revisions:
                inferences[kind].append({"sentence1": first, "sentence2": second, "gold_label": label})
        root = "counterfactually-augmented-data/NLI"
        files |= {f"{root}/{kind}/{split}.tsv": _table(rows) for kind, rows in inferences.items()}
    questions: list[Row] = []
    stances = [["original_claim", "contrast_claim", "perspective", "original_stance_label", "contrast_stance_label"]]
    for n in range(sizes["test"]):
        scene = _draw(rng)
        turned_scene, meant = _related(scene, "contradiction"), _related(scene, _RELATIONS[n % 2])
        asked = [_say(rng, _QUESTION, of)[:-1].lower() for of in (scene, turned_scene)]
        answers, stance = ("TRUE", "FALSE")[:: 1 - n % 2 * 2], ("pos", "neg")[:: 1 - n % 2 * 2]
        perturbed = [{"perturbed_q": asked[1], "answer": answers[1]}]
        questions.append({"title": "Made up", "paragraph": _say(rng, _SCENE, meant), "question": asked[0]})
        questions[-1] |= {"answer": answers[0], "perturbed_questions": perturbed}
        claims = [_say(rng, _CLAIM, of) for of in (scene, turned_scene)]
        stances.append([*claims, _say(rng, _SCENE, meant), *stance])
    files["contrast-sets/BoolQ/boolq_perturbed.json"] = json.dumps({"data": questions}, indent=1) + "\n"
    return files | {"contrast-sets/perspectrum/perspectrum_contrast_sets.csv": _csv(stances)}
