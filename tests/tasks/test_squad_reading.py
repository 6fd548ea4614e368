"""Reading SQuAD's files: what the format says, what does not fit, and what is refused; choosing questions."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trueneg.config.finetune_options import TaskConfig
from trueneg.errors import ConfigError, TaskError
from trueneg.tasks import make_task
from trueneg.tasks.base import Split
from trueneg.tasks.squad import SquadTask
from trueneg.tasks.squad_reading import SquadAnswer, SquadExample

CONTEXT = "The tower was built in 1889. Two years later the tower was sold."


def qa(key: str, *answers: tuple[str, int], question: str = "When?", **more: Any) -> dict[str, Any]:
    given = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": key, "question": question, "answers": given, **more}


def paragraph(*questions: dict[str, Any], context: str = CONTEXT) -> dict[str, Any]:
    return {"context": context, "qas": list(questions)}


def article(*paragraphs: dict[str, Any], title: str = "Tower") -> dict[str, Any]:
    return {"title": title, "paragraphs": list(paragraphs)}


def dataset(*articles: dict[str, Any]) -> dict[str, Any]:
    return {"version": "1.1", "data": list(articles)}


def read(folder: Path, data: Any, version: str = "1.1") -> Split[SquadExample]:
    path = folder / "file.json"
    path.write_text(json.dumps(data))
    return SquadTask(path, version).read("dev")


def test_questions_answers_and_paragraphs(tmp_path: Path) -> None:
    first = paragraph(qa("q1", ("1889", 23), ("in 1889", 20)), qa("q2", ("The tower", 0), question="What?"))
    second = paragraph(qa("q3", ("Bye", 0)), context="Bye.")
    split = read(tmp_path, dataset(article(first, second), article(second | {"qas": [qa("q4", ("Bye", 0))]})))
    assert (split.name, split.is_labelled, split.counts) == ("dev", True, {})
    answers = (SquadAnswer("1889", 23), SquadAnswer("in 1889", 20))
    assert split.examples[0] == SquadExample("q1", "Tower/0", "When?", CONTEXT, answers)
    # Two articles of one title: their paragraphs are still told apart.
    assert [(e.key, e.group) for e in split.examples] == [
        *[("q1", "Tower/0"), ("q2", "Tower/0"), ("q3", "Tower/1"), ("q4", "Tower/2")]
    ]


def test_an_empty_answer_is_no_answer(tmp_path: Path) -> None:
    """As the official scorer of 2.0 has it; in 1.1 there is none."""
    data = dataset(article(paragraph(qa("q1", ("", 0), is_impossible=True), qa("q2", ("1889", 23), ("", 0)))))
    split = read(tmp_path, data, "2.0")
    assert [example.is_impossible for example in split.examples] == [True, False]
    assert split.examples[1].answers == (SquadAnswer("1889", 23),) and not split.counts
    assert read(tmp_path, data).counts == {"answers_misaligned": 2, "contradictory": 1}


def test_a_title_may_be_missing(tmp_path: Path) -> None:
    articles = [{"paragraphs": [paragraph(qa(key, ("1889", 23)))]} for key in ("q1", "q2")]
    assert [e.group for e in read(tmp_path, dataset(*articles)).examples] == ["0/0", "1/0"]


@pytest.mark.parametrize(
    ("text", "stated", "start", "count"),
    [
        ("tower", 4, 4, {}),
        ("tower", 5, 4, {"answers_moved": 1}),
        ("tower", 40, 49, {"answers_moved": 1}),  # the nearest of two
        ("e", 8, 7, {"answers_moved": 1}),  # of many
        ("sold.", -5, 59, {"answers_moved": 1}),  # no offset from the end
        ("tower", 999, 49, {"answers_moved": 1}),
        ("Tower", 4, None, {"answers_misaligned": 1}),  # only as it is written
        ("", 4, None, {"answers_misaligned": 1}),
        (" ", 3, None, {"answers_misaligned": 1}),
    ],
)
def test_answers_that_are_not_where_they_should_be(
    text: str, stated: int, start: int | None, count: dict[str, int], tmp_path: Path
) -> None:
    split = read(tmp_path, dataset(article(paragraph(qa("q1", (text, stated), ("1889", 23))))))
    assert split.examples[0].answers == (SquadAnswer(text, start), SquadAnswer("1889", 23))
    assert split.counts == count


def test_what_is_odd_is_counted_and_kept(tmp_path: Path) -> None:
    odd = paragraph(qa("q1", ("x", 0), question=" "), qa("q2", ("x", 0)), context="  ")
    split = read(tmp_path, dataset(article(odd, paragraph(qa("q3", ("1889", 23))))))
    assert [e.key for e in split.examples] == ["q1", "q2", "q3"]
    assert split.counts == {"empty_contexts": 1, "empty_questions": 1, "answers_misaligned": 2}


IMPOSSIBLE = dataset(
    article(
        paragraph(
            qa("q1", ("1889", 23)),
            qa("q2", is_impossible=True, plausible_answers=[{"text": "1889", "answer_start": 23}]),
            qa("q3"),
            qa("q4", is_impossible=False),
            qa("q5", ("1889", 23), is_impossible=True),
        )
    )
)


def test_version_2_has_impossible_questions(tmp_path: Path) -> None:
    split = read(tmp_path, IMPOSSIBLE, "2.0")
    assert [(e.key, e.is_impossible, len(e.answers)) for e in split.examples] == [
        *[("q1", False, 1), ("q2", True, 0), ("q3", True, 0), ("q4", True, 0), ("q5", False, 1)]
    ]
    assert split.counts == {"contradictory": 2}
    assert all(e.is_labelled for e in split.examples)


def test_version_1_leaves_impossible_questions_out_and_says_so(tmp_path: Path) -> None:
    split = read(tmp_path, IMPOSSIBLE)
    assert [e.key for e in split.examples] == ["q1", "q5"]
    assert split.counts == {"unanswerable_left_out": 3, "contradictory": 2}


@pytest.mark.parametrize("version", ["1.1", "2.0"])
def test_answers_may_be_withheld_from_all(version: str, tmp_path: Path) -> None:
    questions = [{"id": key, "question": "When?"} for key in ("q1", "q2")]
    split = read(tmp_path, dataset(article(paragraph(*questions))), version)
    assert not split.is_labelled
    assert [(e.answers, e.is_impossible, e.is_labelled) for e in split.examples] == [((), False, False)] * 2


def changed(change: Callable[[Any], object]) -> Any:
    data = copy.deepcopy(dataset(article(paragraph(qa("q1", ("1889", 23)), qa("q2", ("1889", 23))))))
    change(data)
    return data


def at_second(change: Callable[[Any], object]) -> Any:
    return changed(lambda data: change(data["data"][0]["paragraphs"][0]["qas"][1]))


SECOND = r"data\[0\]\.paragraphs\[0\]\.qas\[1\]"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "the file has no 'data'"),
        ({"data": {}}, "the file has no 'data'"),
        ({"data": [7]}, r"data\[0\] has no 'paragraphs'"),
        ({"data": []}, "holds no questions:"),
        (changed(lambda data: data["data"][0].pop("paragraphs")), r"data\[0\] has no 'paragraphs'"),
        (changed(lambda data: data["data"][0].update(title=7)), r"data\[0\] has no 'title'"),
        (changed(lambda data: data["data"][0]["paragraphs"][0].pop("context")), r"paragraphs\[0\] has no 'context'"),
        (at_second(lambda qa: qa.pop("id")), f"{SECOND} has no 'id'"),
        (at_second(lambda qa: qa.update(id=7)), f"{SECOND} has no 'id'"),
        (at_second(lambda qa: qa.update(id="q1")), rf"{SECOND} has the id of data\[0\].*qas\[0\], 'q1'"),
        (at_second(lambda qa: qa.pop("question")), f"{SECOND} has no 'question'"),
        (at_second(lambda qa: qa.update(question="\ud800")), f"{SECOND} has a 'question' that is no Unicode text"),
        (at_second(lambda qa: qa.pop("answers")), f"{SECOND} has no 'answers'"),
        (at_second(lambda qa: qa.update(is_impossible="no")), f"{SECOND} has no 'is_impossible'"),
        (at_second(lambda qa: qa["answers"].append("1889")), rf"{SECOND}\.answers\[1\] has no 'text'"),
        (at_second(lambda qa: qa["answers"][0].update(answer_start=True)), rf"{SECOND}\.answers\[0\].*'answer_start'"),
        (at_second(lambda qa: qa["answers"][0].update(answer_start="23")), rf"{SECOND}\.answers\[0\].*'answer_start'"),
        (dataset(article(paragraph(qa("q1"), qa("q2")))), "holds no questions with answers"),
    ],
)
def test_what_is_not_in_the_format_is_named(data: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=rf"file\.json:? .*{message}|file\.json {message}"):
        read(tmp_path, data)


@pytest.mark.parametrize(
    ("content", "reason"), [(b'{\n"data": [\n}', "line 3"), (b"[" * 100_000, "deep"), (b'{"data": "\xff"}', "utf-8")]
)
def test_what_is_no_json_is_named(content: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / "dev-v1.1.json").write_bytes(content)
    with pytest.raises(TaskError, match=rf"dev-v1\.1\.json: not JSON \(.*{reason}"):
        SquadTask(tmp_path).read("dev")


def test_a_folder_has_a_file_for_each_split_and_version(tmp_path: Path) -> None:
    for split, version in (("train", "1.1"), ("dev", "1.1"), ("dev", "2.0")):
        data = dataset(article(paragraph(qa(f"{split} {version}", ("1889", 23)))))
        (tmp_path / f"{split}-v{version}.json").write_text(json.dumps(data))
    assert SquadTask(tmp_path).read("train").examples[0].key == "train 1.1"
    assert SquadTask(tmp_path, "2.0").read("dev").examples[0].key == "dev 2.0"
    with pytest.raises(TaskError, match=r"has no train-v2\.0\.json, but dev-v1\.1\.json, dev-v2\.0\.json, train-v1\.1"):
        SquadTask(tmp_path, "2.0").read("train")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(TaskError, match=r"has no dev-v1\.1\.json, but no \.json file"):
        SquadTask(empty).read("dev")


def test_a_single_file_is_dev(tmp_path: Path) -> None:
    read(tmp_path, dataset(article(paragraph(qa("q1", ("1889", 23))))))
    with pytest.raises(TaskError, match=r"file\.json' is no folder: to read 'train', give one with train-v1\.1\.json"):
        SquadTask(tmp_path / "file.json").read("train")
    with pytest.raises(TaskError, match=r"cannot read '.*nowhere.*No such file"):
        SquadTask(tmp_path / "nowhere").read("dev")


def test_options_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"unknown version of SQuAD '2': did you mean '2\.0'"):
        SquadTask("data", "2")
    with pytest.raises(ConfigError, match="max_answer must be at least 1, got 0"):
        SquadTask("data", max_answer=0)


def many(num: int, num_impossible: int) -> list[SquadExample]:
    return [SquadExample(str(n), "t/0", "?", "x", (), is_impossible=n % num < num_impossible) for n in range(num)]


def test_a_choice_is_of_that_size_in_order_and_by_its_seed() -> None:
    task, examples = SquadTask("data"), many(100, 0)
    chosen = task.subset(examples, 30, seed=1)
    numbers = [int(e.key) for e in chosen]
    assert len(set(numbers)) == 30
    assert numbers == sorted(numbers)
    assert task.subset(examples, 30, seed=1) == chosen
    assert task.subset(examples, 30, seed=2) != chosen
    assert {e.key for e in chosen} < {e.key for e in task.subset(examples, 60, seed=1)}
    assert task.subset(examples, 100, seed=1) == task.subset(examples, 1000, seed=1) == examples


def test_a_choice_keeps_the_share_of_impossible_questions() -> None:
    task, examples = SquadTask("data", "2.0"), many(99, 33)
    for num in (3, 30, 60):
        chosen = task.subset(examples, num, seed=3)
        assert (len(chosen), sum(e.is_impossible for e in chosen)) == (num, num // 3)


def test_what_is_configured_reaches_the_task() -> None:
    options: dict[str, Any] = {"doc_stride": 5, "max_query": 6, "max_answer": 7, "num_best": 8, "null_threshold": 0.5}
    task = make_task(TaskConfig(name="squad/v2.0", data="data", **options))
    assert isinstance(task, SquadTask) and task.version == "2.0"
    assert {name: getattr(task, name) for name in options} == options
