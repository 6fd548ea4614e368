"""Reading human judgement of substitutes: what the format says, and what is wrong with a file."""

from __future__ import annotations

import copy
import gzip
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from trueneg.errors import ConfigError, CorpusError, TruenegWarning
from trueneg.evaluation.detectors.swords import Benchmark, level_named, read_benchmark, single_tokens

TINY = Path(__file__).parents[2] / "data" / "swords" / "tiny.json"


@pytest.fixture
def tiny() -> dict[str, Any]:
    loaded = json.loads(TINY.read_text())
    assert isinstance(loaded, dict)
    return loaded


def by_id(benchmark: Benchmark) -> dict[str, str]:
    return {item.substitute_id: item.substitution.substitute for item in benchmark.items}


def write(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content))
    return path


def test_items_say_what_people_think_of_a_word_in_its_place() -> None:
    items = {item.substitute_id: item for item in read_benchmark(TINY).items}
    film = items["s:film"]
    assert film.substitution.substituted == "Films are long. We saw two movies in a row."
    assert (film.substitution.target, film.substitution.pos, film.lemma) == ("Movies", "n", "movie")
    assert (film.target_id, film.substitute_lemma) == ("t:movies", "film")
    accepted = {key: item.acceptability for key, item in items.items()}
    assert accepted == {
        **dict.fromkeys(("s:coating", "s:go", "s:move", "s:blue", "s:slowly"), 0.0),
        **{"s:film": 0.8, "s:work": 0.1, "s:remain": 0.5, "s:main": 2 / 3, "s:chief": 0.25, "s:rapidly": 1.0},
        "s:few": 1 / 3,
    }


def test_substitutes_are_put_into_the_form_of_the_text() -> None:
    inflected, plain = by_id(read_benchmark(TINY)), by_id(read_benchmark(TINY, inflect=False))
    changed = {key: form for key, form in inflected.items() if form != plain[key]}
    # "had stayed": a participle. The base forms of "stayed" and "quickly" come from the dictionary.
    assert changed == {
        **{"s:film": "Films", "s:work": "Works of art", "s:coating": "Coatings"},
        **{"s:remain": "remained", "s:go": "gone", "s:move": "moved"},
    }
    assert plain["s:film"] == "film"


def test_word_forms_stay_as_they_are(tiny: dict[str, Any], tmp_path: Path) -> None:
    tiny["substitutes_lemmatized"] = False
    assert by_id(read_benchmark(write(tmp_path / "forms.json", tiny)))["s:film"] == "film"


def test_gzip_folders_and_digests(tiny: dict[str, Any], tmp_path: Path) -> None:
    other = copy.deepcopy(tiny)
    for part in ("targets", "substitutes", "substitute_labels"):
        other[part] = {f"{key}2": entry for key, entry in other[part].items()}
    for entry in other["substitutes"].values():
        entry["target_id"] += "2"
    zipped = gzip.compress(json.dumps(other).encode())
    (tmp_path / "b.json.gz").write_bytes(zipped)
    write(tmp_path / "a.json", tiny)
    (tmp_path / "readme.md").write_text("not data")
    read = read_benchmark(tmp_path)
    assert [len(read.items), len(read.target_ids)] == [24, 10]
    assert read.items[:12] == read_benchmark(TINY).items
    assert list(read.digests) == ["a.json", "b.json.gz"]
    assert read.digests["b.json.gz"] == hashlib.sha256(zipped).hexdigest()


def test_a_target_in_two_files_is_refused(tiny: dict[str, Any], tmp_path: Path) -> None:
    for name in ("dev.json", "test.json"):
        write(tmp_path / name, tiny)
    with pytest.raises(CorpusError, match=r"test\.json: target t:\w+ is also in dev\.json"):
        read_benchmark(tmp_path)


def test_a_sample_keeps_targets_whole() -> None:
    whole = read_benchmark(TINY)
    some = whole.sample(2, seed=1)
    assert len(some.target_ids) == 2
    assert some.items == tuple(item for item in whole.items if item.target_id in some.target_ids)
    assert some == whole.sample(2, seed=1)
    assert len({whole.sample(2, seed=seed).target_ids for seed in range(10)}) > 1
    assert whole.sample(99) is whole


def test_implicit_labels_are_told_of(tiny: dict[str, Any], tmp_path: Path) -> None:
    """As CoInCo and SemEval-07 have them: one label a judge that thought of the word, or one for none."""
    for key in tiny["substitute_labels"]:
        tiny["substitute_labels"][key] = ["FALSE_IMPLICIT"]
    tiny["substitute_labels"]["s:film"] = ["TRUE_IMPLICIT"] * 3
    file = write(tmp_path / "coinco.json", tiny)
    with pytest.warns(TruenegWarning, match=r"coinco\.json: labels are implicit"):
        read = read_benchmark(file)
    assert [item.acceptability for item in read.items] == [1.0] + [0.0] * 11


@pytest.mark.parametrize("pos, wanted", [("PROPN", "n"), ("AUX", "v"), ("NUM", None), (None, None)])
def test_parts_of_speech(tiny: dict[str, Any], tmp_path: Path, pos: str | None, wanted: str | None) -> None:
    tiny["targets"]["t:movies"]["pos"] = pos
    assert read_benchmark(write(tmp_path / "pos.json", tiny)).items[0].substitution.pos == wanted


def remove(*path: str) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        for key in path[:-1]:
            content = content[key]
        del content[path[-1]]

    return change


def put(value: Any, *path: str) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        for key in path[:-1]:
            content = content[key]
        content[path[-1]] = value

    return change


@pytest.mark.parametrize(
    "change, complaint",
    [
        (remove("substitute_labels", "s:main"), "substitute s:main has no labels: add them"),
        (put([], "substitute_labels", "s:main"), "substitute s:main has no labels"),
        (put("TRUE", "substitute_labels", "s:main"), "substitute s:main has no labels"),
        (put(["TRUE", "FALS"], "substitute_labels", "s:main"), "s:main: unknown label 'FALS': did you mean 'FALSE'?"),
        (put(["TRUE", 1], "substitute_labels", "s:main"), "s:main: unknown label '1'"),
        (put([""], "substitute_labels", "s:main"), "s:main: unknown label ''"),
        (put([None], "substitute_labels", "s:main"), "s:main: unknown label 'None'"),
        (put(["TRUE"], "substitute_labels", ""), "labels for , which is not a substitute"),
        (put(["VERB"], "targets", "t:stayed", "pos"), "target t:stayed: unknown part of speech"),
        (put(["TRUE"], "substitute_labels", "s:none"), "labels for s:none, which is not a substitute"),
        (put(3, "targets", "t:stayed", "offset"), "target t:stayed: 'stayed' is not at offset 3"),
        (put(-6, "targets", "t:stayed", "offset"), "target t:stayed: 'stayed' is not at offset -6"),
        (put("8", "targets", "t:stayed", "offset"), "t:stayed has no 'offset' (int)"),
        (put(True, "targets", "t:stayed", "offset"), "t:stayed has no 'offset' (int)"),
        (put("", "targets", "t:stayed", "target"), "target t:stayed: '' is not at offset 8"),
        (
            put("VRB", "targets", "t:stayed", "pos"),
            "target t:stayed: unknown part of speech 'VRB': did you mean 'VERB'?",
        ),
        (put("c:9", "targets", "t:stayed", "context_id"), "target t:stayed: there is no context c:9"),
        (remove("targets", "t:stayed", "target"), "t:stayed has no 'target' (str)"),
        (put("t:9", "substitutes", "s:go", "target_id"), "substitute s:go: there is no target t:9"),
        (put(" ", "substitutes", "s:go", "substitute"), "substitute s:go is empty"),
        (put("go", "substitutes", "s:go"), "s:go has no 'substitute' (str)"),
        (remove("contexts", "c:1", "context"), "c:1 has no 'context' (str)"),
        (remove("substitute_labels"), "is not in SWORDS' format, it has no 'substitute_labels' (dict)"),
        (remove("substitutes_lemmatized"), "it has no 'substitutes_lemmatized' (bool)"),
        (put([], "targets"), "it has no 'targets' (dict)"),
    ],
)
def test_what_is_wrong_is_named(
    tiny: dict[str, Any], tmp_path: Path, change: Callable[[dict[str, Any]], None], complaint: str
) -> None:
    change(tiny)
    file = write(tmp_path / "bad.json", tiny)
    with pytest.raises(CorpusError) as caught:
        read_benchmark(file)
    assert complaint in str(caught.value)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    "content, complaint",
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"{'contexts'", "not JSON"),
        (b'{"a": "\xe9"}', "not JSON"),
        pytest.param(b"[" * 100_000, "not JSON", id="deep"),
        pytest.param(gzip.compress(bytes(65 << 20), 1), "over 67,108,864 bytes", id="bomb"),
        (b"[1]", "is not in SWORDS' format, it has no 'contexts'"),
        # A gzip archive holds the second of its making, which no test's name may.
        pytest.param(gzip.compress(b"[1]"), "is not in SWORDS' format", id="zipped"),
        pytest.param(gzip.compress(b"[1]" * 99)[:-9], "the gzip archive is damaged", id="cut short"),
        (b"\x1f\x8b nonsense", "the gzip archive is damaged"),
        (
            b'{"contexts":{},"targets":{},"substitutes":{},"substitutes_lemmatized":true,"substitute_labels":{}}',
            "no sub",
        ),
    ],
)
def test_files_of_another_kind(tmp_path: Path, content: bytes, complaint: str) -> None:
    file = tmp_path / "bad.json"
    file.write_bytes(content)
    with pytest.raises(CorpusError) as caught:
        read_benchmark(file)
    assert complaint in str(caught.value) and str(file) in str(caught.value)


def test_places_without_data(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no such file or folder: get a file"):
        read_benchmark(tmp_path / "absent.json")
    with pytest.raises(CorpusError, match=r"no file in it ends in \.json"):
        read_benchmark(tmp_path)


def test_levels() -> None:
    assert (level_named("most"), level_named("any")) == (0.5, 0.1)
    with pytest.raises(ConfigError, match="did you mean 'most'"):
        level_named("mots")


def test_single_tokens() -> None:
    vocabulary = ["[UNK]", "primary", "main", "chief", "qui", "##ckly", "rapidly", "slowly"]
    pieces = Tokenizer(models.WordPiece({token: at for at, token in enumerate(vocabulary)}, unk_token="[UNK]"))
    pieces.pre_tokenizer = pre_tokenizers.Whitespace()
    items = read_benchmark(TINY).items
    whole = single_tokens(items, PreTrainedTokenizerFast(tokenizer_object=pieces, unk_token="[UNK]"))
    assert [items[at].substitute_id for at in np.flatnonzero(whole)] == ["s:main", "s:chief"]
