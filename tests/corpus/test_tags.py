from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from folders import contents
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from trueneg.corpus import encoding
from trueneg.corpus.build import build_corpus
from trueneg.corpus.encoding import CorpusTokenizer
from trueneg.corpus.rows import RowIndex, describe
from trueneg.corpus.store import Corpus, CorpusInfo
from trueneg.corpus.tags import Tags, TagsInfo
from trueneg.errors import ConfigError, CorpusError
from trueneg.lexicon.tagging import make_tagger, tag_text
from trueneg.lexicon.tags import PENN

KINDS = ["wordpiece", "bpe", "sentencepiece", "prepending"]
PATTERN = make_tagger("pattern")
OF_TAGS = (".tags.bin", ".forms.bin", "tags.json")


@pytest.fixture(params=KINDS)
def tokenizer(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.getfixturevalue(request.param)
    return folder


@pytest.fixture(scope="module")
def tagged(text_file: Path, wordpiece: Path, tmp_path_factory: pytest.TempPathFactory) -> Tags:
    folder = tmp_path_factory.mktemp("tagged") / "corpus"
    build_corpus([str(text_file)], wordpiece, folder, shard_tokens=3000, valid=0.1, tagger="pattern")
    return Tags.open(Corpus.open(folder))


@pytest.fixture
def copy(tagged: Tags, tmp_path: Path) -> Path:
    return shutil.copytree(tagged.corpus.path, tmp_path / "copy")


def all_tags(tags: Tags) -> np.ndarray:
    return tags.windows(np.zeros(1, dtype=np.int64), tags.corpus.num_tokens)[0]


def reference(text: str, fast: PreTrainedTokenizerBase) -> tuple[list[int], Counter[tuple[str, str]]]:
    """Tags of a text's tokens and its words, character by character."""
    found = tag_text(text, PATTERN)
    words = list(zip(found.starts.tolist(), found.ends.tolist(), found.tags.tolist(), strict=True))
    owner = {place: n for n, (start, end, _) in enumerate(words) for place in range(start, end)}
    encoded = fast(text, add_special_tokens=False, return_offsets_mapping=True)
    spans, spelt = encoded["offset_mapping"], fast.convert_ids_to_tokens(encoded["input_ids"])
    numbers = encoded.word_ids()
    is_start = [n == 0 or numbers[n] != numbers[n - 1] or token.startswith("\u2581") for n, token in enumerate(spelt)]
    owners = [{owner[place] for place in range(*span) if place in owner} for span in spans]
    for n in range(len(spans) - 1):
        if not owners[n] and is_start[n] and not is_start[n + 1]:
            owners[n] = owners[n + 1]  # white space goes with its word
    whole = [next(iter(those)) if len(those) == 1 else -1 for those in owners]
    cut = {whole[n] for n in range(1, len(whole)) if is_start[n] and whole[n] == whole[n - 1]}
    cut |= {n for those in owners if len(those) > 1 for n in those}
    tags = [0 if n < 0 or n in cut else words[n][2] for n in whole]
    kept = {n for n, tag in zip(whole, tags, strict=True) if tag}
    return tags, Counter((text[words[n][0] : words[n][1]], PENN[words[n][2]]) for n in kept)


def test_tokens_have_the_tags_of_their_words(
    tmp_path: Path, text_file: Path, texts: list[str], tokenizer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding, "_PIECE_CHARACTERS", 40)
    build_corpus([str(text_file)], tokenizer, tmp_path / "out", shard_tokens=2000, tagger="pattern")
    tags = Tags.open(Corpus.open(tmp_path / "out"))
    tags.verify()
    assert len(tags.shards) > 3
    expected, words = [], Counter[tuple[str, str]]()
    fast = AutoTokenizer.from_pretrained(str(tokenizer))
    for text in texts:
        in_text, of_text = reference(text, fast)
        expected += in_text
        words += of_text
    assert all_tags(tags).tolist() == expected
    assert 0.4 < np.mean(np.array(expected) > 0) < 0.95
    if tags.info.is_uncased:
        words = Counter({(text.lower(), tag): count for (text, tag), count in words.items()})
    table = tags.words()
    assert {
        (text, PENN[tag]): count for text, tag, count in zip(table.texts, table.tags, table.counts, strict=True)
    } == words
    assert list(zip(table.texts, table.tags.tolist(), strict=True)) == sorted(
        zip(table.texts, table.tags.tolist(), strict=True)
    )
    assert sum(shard.num_words for shard in tags.shards) == table.counts.sum() == words.total()
    assert tags.info.is_uncased == (tokenizer.name == "wordpiece")


def encoded_tags(text: str, tokenizer: Path) -> list[tuple[str, str]]:
    backend = Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
    found = CorpusTokenizer(backend, PATTERN)([text])
    assert found.tagged is not None
    spelt = [backend.id_to_token(number) for number in found.tokens.tolist()]
    return [(token, PENN[tag]) for token, tag in zip(spelt, found.tagged.tags.tolist(), strict=True)]


@pytest.mark.parametrize("kind", KINDS)
def test_parts_of_contractions_and_punctuation_belong_to_no_word(kind: str, request: pytest.FixtureRequest) -> None:
    found = encoded_tags("the fisherman's boat don't (water), 3rd well-known", request.getfixturevalue(kind))
    of_none = ("don", "'t", "'", "(", ")", ",", "-", "don't")
    assert not any(tag for token, tag in found if token.strip("\u2581\u0120") in of_none)
    spelt = {tag: "".join(token for token, of_word in found if of_word == tag) for _, tag in found}
    letters = {tag: "".join(filter(str.isalpha, text)).replace("\u0120", "") for tag, text in spelt.items()}
    assert letters["DT"] == "the"
    assert "boat" in letters["NN"]
    assert letters["NN"].replace("UNK", "").startswith("fisherman") == (kind in ("wordpiece", "bpe"))
    assert "water" in letters["NN"]


def test_only_whole_words_have_tags() -> None:
    vocabulary = ["[UNK]", "d", "##on", "##o", "'", "t", "3", "rd", "go", "##es", "on"]
    backend = Tokenizer(models.WordPiece({token: n for n, token in enumerate(vocabulary)}, unk_token="[UNK]"))
    digits = pre_tokenizers.Digits(individual_digits=True)
    backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.BertPreTokenizer(), digits])
    found = CorpusTokenizer(backend, PATTERN)(["don't do", "on 3rd 3 goes"])
    assert found.tagged is not None
    spelt = [backend.id_to_token(number) for number in found.tokens.tolist()]
    tags = [PENN[tag] for tag in found.tagged.tags.tolist()]
    pairs = list(zip(spelt, tags, strict=True))
    assert pairs[:4] == [("d", ""), ("##on", ""), ("'", ""), ("t", "")]  # "d" begins "do", "##on" goes beyond it
    assert pairs[4:6] == [("d", "VB"), ("##o", "VB")]
    assert pairs[6:] == [("on", "IN"), ("3", ""), ("rd", ""), ("3", "CD"), ("go", "VBZ"), ("##es", "VBZ")]
    words = [("do", "VB"), ("on", "IN"), ("3", "CD"), ("goes", "VBZ")]
    assert {(text, PENN[tag]) for text, tag in found.tagged.forms} == set(words)
    assert found.tagged.last_tokens.tolist() == [5, 6, 9, 11]
    assert found.tagged.counts(6, 10) == {(text, PENN.index(tag)): 1 for text, tag in words[1:3]}


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(st.text(st.one_of(st.sampled_from("theriver n't'\n ."), st.characters(codec="utf-8"))), max_size=4)
)
def test_any_text_can_be_tagged(texts: list[str], tokenizer: Path) -> None:
    backend = Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
    encoder = CorpusTokenizer(backend, make_tagger("pattern-fast"))
    together = encoder(texts)
    assert together.tagged is not None
    assert len(together.tagged.tags) == len(together.tokens)
    apart = [encoder([text]).tagged for text in texts]
    assert together.tagged.tags.tolist() == [tag for one in apart if one for tag in one.tags.tolist()]
    words = Counter[tuple[str, int]]()
    for one in apart:
        assert one is not None
        words.update(one.counts(0, len(one.tags)))
    assert together.tagged.counts(0, len(together.tokens)) == words


def test_the_rest_of_a_corpus_is_the_same_without_tags(
    tmp_path: Path, text_file: Path, wordpiece: Path, tagged: Tags
) -> None:
    plain = build_corpus([str(text_file)], wordpiece, tmp_path / "out", shard_tokens=3000, valid=0.1)
    assert plain.fingerprint == tagged.corpus.info.fingerprint
    of_both = {name: data for name, data in contents(tagged.corpus.path).items() if not name.endswith(OF_TAGS)}
    untagged = contents(tmp_path / "out")
    # What a build was asked for differs, and nothing else.
    assert untagged.pop("built.json") != of_both.pop("built.json")
    assert untagged == of_both
    corpus = Corpus.open(tmp_path / "out")
    assert Tags.find(corpus) is None
    assert describe(corpus.path)["tags"] is None
    assert RowIndex(corpus, 20).read(np.arange(3)).tags is None
    with pytest.raises(CorpusError, match="has no tags: build it again with --tag --overwrite"):
        Tags.open(corpus)


def test_the_number_of_workers_changes_no_byte(
    tmp_path: Path, text_file: Path, wordpiece: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for workers in (1, 2):
        with monkeypatch.context() as context:
            context.setattr("trueneg.corpus.build._UNIT_CHARACTERS", 1500 * workers)
            options = {"valid": 0.3, "shard_tokens": 999, "tagger": "pattern", "workers": workers}
            build_corpus([str(text_file)], wordpiece, tmp_path / str(workers), **options)
    one, two = (contents(tmp_path / str(workers)) for workers in (1, 2))
    assert one == two
    assert sum(name.endswith(OF_TAGS) for name in one) > 9


SCRIPT = textwrap.dedent("""
    import sys, time
    import trueneg.corpus.build as build

    source, tokenizer, out = sys.argv[1:]
    build._UNIT_CHARACTERS = 1500
    build.build_corpus([source], tokenizer, out, valid=0.2, shard_tokens=700, tagger="pattern",
                       progress=lambda _: time.sleep(0.05))
""")


def test_a_killed_build_goes_on_to_the_same_bytes(tmp_path: Path, text_file: Path, wordpiece: Path) -> None:
    script, out = tmp_path / "build.py", tmp_path / "killed"
    script.write_text(SCRIPT, encoding="utf-8")
    process = subprocess.Popen([sys.executable, str(script), str(text_file), str(wordpiece), str(out)])
    while not (out / "train" / "00002.tags.bin").exists() and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    finished = {path: path.stat().st_mtime_ns for path in (out / "train").glob("0000[01].*.bin")}
    assert len(finished) == 10
    options = {"valid": 0.2, "shard_tokens": 700, "tagger": "pattern"}
    build_corpus([str(text_file)], wordpiece, out, **options)
    build_corpus([str(text_file)], wordpiece, tmp_path / "whole", **options)
    assert {path: path.stat().st_mtime_ns for path in finished} == finished
    assert contents(out) == contents(tmp_path / "whole")


@pytest.mark.parametrize("tagger", [None, "pattern-fast"])
def test_an_unfinished_build_with_another_tagger_is_kept_unless_it_may_be_overwritten(
    tmp_path: Path, text_file: Path, wordpiece: Path, tagger: str | None
) -> None:
    def stop(_: int) -> None:
        raise RuntimeError

    given = ([str(text_file)], wordpiece, tmp_path / "out")
    with pytest.raises(RuntimeError):
        build_corpus(*given, shard_tokens=3000, tagger="pattern", progress=stop)
    with pytest.raises(CorpusError, match=rf"unfinished corpus of other inputs \(.*tagger\.name: pattern -> {tagger}"):
        build_corpus(*given, shard_tokens=3000, tagger=tagger)
    build_corpus(*given, shard_tokens=3000, tagger=tagger, overwrite=True)
    assert (Tags.find(Corpus.open(tmp_path / "out")) is None) == (tagger is None)


def test_an_untagged_corpus_takes_the_place_of_a_tagged_one(copy: Path, text_file: Path, wordpiece: Path) -> None:
    build_corpus([str(text_file)], wordpiece, copy, overwrite=True)
    assert not [name for name in contents(copy) if name.endswith(OF_TAGS)]


def test_unknown_taggers_write_nothing(tmp_path: Path, text_file: Path, wordpiece: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'pattern'"):
        build_corpus([str(text_file)], wordpiece, tmp_path / "out", tagger="patern")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("length", [4, 33, 128])
def test_rows_give_the_tags_of_their_tokens(tagged: Tags, length: int, pack: bool) -> None:
    corpus = tagged.corpus
    assert len(corpus.shards) > 1
    rows = RowIndex(corpus, length, pack=pack, tags=tagged)
    batch = rows.read(np.arange(len(rows)))
    assert batch.tags is not None
    assert batch.tags.dtype == np.uint8
    assert batch.tags[~batch.is_special].tolist() == all_tags(tagged).tolist()
    assert not batch.tags[batch.is_special].any()
    some = np.array([len(rows) - 1, 0, len(rows) // 2, 0])
    read = rows.read(some)
    assert read.tags is not None
    assert read.tags.tolist() == batch.tags[some].tolist()
    assert read.input_ids.tolist() == batch.input_ids[some].tolist()


def test_windows_go_on_with_the_last_tag(tagged: Tags) -> None:
    tags, num = all_tags(tagged), tagged.corpus.num_tokens
    starts = np.array([num - 3, 0, 2990, num - 1])
    expected = tags[np.minimum(starts[:, None] + np.arange(50), num - 1)]
    assert tagged.windows(starts, 50).tolist() == expected.tolist()


def test_a_description_says_who_tagged(tagged: Tags) -> None:
    told = describe(tagged.corpus.path)["tags"]
    assert told["tagger"] == "pattern"
    assert list(told["provenance"]) == ["textblob"]
    assert told["num_words"]["train"] == tagged.words().counts.sum()
    assert told["fingerprint"] == TagsInfo.read(tagged.corpus.path).fingerprint
    assert json.dumps(told)


def test_tags_of_another_corpus_or_split_are_refused(
    copy: Path, tagged: Tags, tmp_path: Path, text_file: Path, wordpiece: Path
) -> None:
    other = Corpus.open(copy, "valid")
    with pytest.raises(CorpusError, match="opened for the split 'train', not for 'valid'"):
        RowIndex(other, 10, tags=tagged)
    build_corpus([str(text_file)], wordpiece, tmp_path / "other", valid=0.1, seed=1, tagger="pattern")
    shutil.copy(tmp_path / "other" / "tags.json", copy / "tags.json")
    assert CorpusInfo.read(copy).fingerprint != CorpusInfo.read(tmp_path / "other").fingerprint
    with pytest.raises(CorpusError, match=r"belongs to another corpus .*--tag --overwrite"):
        Tags.open(Corpus.open(copy))


def test_a_table_that_is_none_is_refused_by_line(copy: Path) -> None:
    file = copy / "train" / "00000.forms.bin"
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    lines[2] = lines[2].replace("\t", " ")
    file.write_text("".join(lines), encoding="utf-8")
    with pytest.raises(CorpusError, match=r"00000.forms.bin', line 3: no word, tag and count: .*--tag"):
        Tags.open(Corpus.open(copy, verify=False)).words()
