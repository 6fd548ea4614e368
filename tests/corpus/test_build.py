from __future__ import annotations

import errno
import json
import os
import random
import resource
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from folders import contents
from made_up_text import change_number, documents
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from tiny_tokenizers import SPECIAL, numbered, wrapped
from trueneg.corpus import encoding
from trueneg.corpus.build import build_corpus
from trueneg.corpus.parts import build_part, finish_corpus
from trueneg.corpus.sources import read_documents
from trueneg.corpus.store import Corpus, CorpusInfo
from trueneg.errors import CorpusError, Interrupted, ModelError, TruenegError, TruenegWarning
from trueneg.tokenizer import fingerprint, load_tokenizer


@pytest.fixture(params=["wordpiece", "bpe", "sentencepiece", "prepending"])
def tokenizer(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.getfixturevalue(request.param)
    return folder


@pytest.mark.parametrize("piece_characters", [1 << 12, 16])
def test_documents_hold_what_the_tokenizer_gives(
    tmp_path: Path,
    text_file: Path,
    texts: list[str],
    tokenizer: Path,
    piece_characters: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(encoding, "_PIECE_CHARACTERS", piece_characters)
    info = build_corpus([str(text_file)], tokenizer, tmp_path / "out", shard_tokens=2000)
    reference = AutoTokenizer.from_pretrained(str(tokenizer))
    expected = reference(texts, add_special_tokens=False)
    corpus = Corpus.open(tmp_path / "out")
    corpus.verify()
    assert corpus.num_documents == len(texts) == info.num_documents
    assert len(corpus.shards) > 3
    assert [corpus.document(i).tolist() for i in range(len(texts))] == expected["input_ids"]
    assert corpus.num_tokens == sum(map(len, expected["input_ids"])) == corpus.offsets[-1]

    spelt = [reference.convert_ids_to_tokens(ids) for ids in expected["input_ids"]]
    starts = []
    for i, tokens in enumerate(spelt):
        words = expected.word_ids(i)
        by_library = [n == 0 or words[n] != words[n - 1] for n in range(len(words))]
        by_spelling = [n == 0 or not token[0].isalnum() for n, token in enumerate(tokens)]  # a mark, or punctuation
        starts += by_spelling if tokenizer.name in ("sentencepiece", "prepending") else by_library
    assert corpus.gather(np.arange(corpus.num_tokens))[1].tolist() == starts
    assert 0.2 < np.mean(starts) < 0.95


def test_the_copied_tokenizer_is_the_same(corpus: Corpus, wordpiece: Path) -> None:
    copied = load_tokenizer(corpus.path / "tokenizer")
    assert fingerprint(copied) == fingerprint(load_tokenizer(wordpiece)) == corpus.info.tokenizer_fingerprint
    assert corpus.info.special_ids == {"pad": 0, "start": 2, "end": 3, "mask": 4}


def test_special_tokens_in_a_text_are_plain_text(tmp_path: Path, wordpiece: Path) -> None:
    source = tmp_path / "a.txt"
    source.write_text("the [MASK] river [SEP] built", encoding="utf-8")
    with pytest.warns(TruenegWarning, match="unknown"):
        info = build_corpus([str(source)], wordpiece, tmp_path / "out")
    assert not set(info.special_ids.values()) & set(Corpus.open(tmp_path / "out").document(0).tolist())


@pytest.mark.parametrize("valid", [None, 0.3])
def test_the_number_of_workers_changes_no_byte(
    tmp_path: Path, text_file: Path, wordpiece: Path, valid: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for workers in (1, 2, 3):
        with monkeypatch.context() as context:
            context.setattr("trueneg.corpus.build._UNIT_CHARACTERS", 1000 * workers)
            build_corpus(
                [str(text_file)],
                wordpiece,
                tmp_path / str(workers),
                workers=workers,
                valid=valid,
                shard_tokens=999,
            )
    one, two, three = (contents(tmp_path / str(workers)) for workers in (1, 2, 3))
    assert one == two == three
    assert "build.json" not in one


def test_a_fraction_splits_by_document(tmp_path: Path, text_file: Path, texts: list[str], wordpiece: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    infos = [build_corpus([str(text_file)], wordpiece, f, valid=0.2, seed=s) for s, f in enumerate(folders)]
    assert infos[0].splits["valid"].num_documents == pytest.approx(0.2 * len(texts), rel=0.5)
    tokenizer = load_tokenizer(wordpiece)
    expected = sorted(tokenizer(texts, add_special_tokens=False)["input_ids"])
    held_out = []
    for folder in folders:
        splits = [Corpus.open(folder, name) for name in ("train", "valid")]
        found = [[c.document(i).tolist() for i in range(c.num_documents)] for c in splits]
        assert sorted(found[0] + found[1]) == expected
        held_out.append(found[1])
    assert held_out[0] != held_out[1]


def test_equal_documents_fall_on_the_same_side(tmp_path: Path, text_file: Path, wordpiece: Path) -> None:
    info = build_corpus([str(text_file)] * 2, wordpiece, tmp_path / "out", valid="0.2")
    train, valid = (
        {tuple(c.document(i).tolist()) for i in range(c.num_documents)}
        for c in (Corpus.open(tmp_path / "out", name) for name in ("train", "valid"))
    )
    assert info.splits["valid"].num_documents % 2 == 0
    assert not train & valid


def test_a_file_of_validation_text(tmp_path: Path, text_file: Path, wordpiece: Path) -> None:
    source = tmp_path / "valid.txt"
    source.write_text("the river\n\na village in winter", encoding="utf-8")
    info = build_corpus([str(text_file)], wordpiece, tmp_path / "out", valid=str(source))
    valid = Corpus.open(tmp_path / "out", "valid")
    assert valid.document(0).tolist() == load_tokenizer(wordpiece)("the river", add_special_tokens=False)["input_ids"]
    assert valid.num_documents == 2
    assert [source.name.rpartition("/")[2] for source in info.sources] == ["documents.txt", "valid.txt"]
    assert [source.num_bytes for source in info.sources] == [text_file.stat().st_size, source.stat().st_size]


def test_empty_documents_are_left_out_and_counted(tmp_path: Path, wordpiece: Path) -> None:
    source = tmp_path / "a.jsonl"
    kept = documents(30)
    lines = [json.dumps({"text": text}) for text in kept]
    source.write_text("\n".join(['{"text": ""}', *lines[:9], '{"text": null}', *lines[9:], '{"text": " \\u0000"}']))
    info = build_corpus([str(source)], wordpiece, tmp_path / "out", shard_tokens=100)
    assert info.splits["train"].num_documents == 30
    assert info.splits["train"].num_empty_documents == 3
    assert len(info.splits["train"].shards) > 3


def test_unknown_tokens_are_counted_and_warned_of(tmp_path: Path, wordpiece: Path) -> None:
    source = tmp_path / "a.txt"
    source.write_text("the river 山 the village 川", encoding="utf-8")
    with pytest.warns(TruenegWarning, match=r"[\d.]+% of the tokens are unknown"):
        info = build_corpus([str(source)], wordpiece, tmp_path / "out")
    assert info.splits["train"].num_unknown_tokens == 2


def test_a_large_vocabulary_is_stored_in_four_bytes(tmp_path: Path) -> None:
    backend = Tokenizer(models.WordLevel(numbered([*SPECIAL, *(f"w{i}" for i in range(65_600))]), unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    wrapped(backend).save_pretrained(str(tmp_path / "tokenizer"))
    (tmp_path / "a.txt").write_text("w0 w65599 w65530 w65531", encoding="utf-8")
    info = build_corpus([str(tmp_path / "a.txt")], tmp_path / "tokenizer", tmp_path / "out")
    assert info.dtype == "uint32"
    assert info.vocab_size == 65_605
    assert Corpus.open(tmp_path / "out").document(0).tolist() == [5, 65_604, 65_535, 65_536]


def test_a_book_is_one_document(tmp_path: Path, wordpiece: Path) -> None:
    paragraphs = documents(400)
    (tmp_path / "book.txt").write_text("\n".join(paragraphs), encoding="utf-8")
    info = build_corpus([str(tmp_path / "book.txt")], wordpiece, tmp_path / "out", shard_tokens=100)
    assert info.num_documents == len(info.splits["train"].shards) == 1
    whole = load_tokenizer(wordpiece)("\n".join(paragraphs), add_special_tokens=False)["input_ids"]
    assert Corpus.open(tmp_path / "out").document(0).tolist() == whole


@pytest.mark.parametrize("text", ["", "short", "x" * 50_000, "word " * 9000, "山川" * 9000, " \n" * 20_000])
def test_pieces_join_to_the_text(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "_LONGEST_PIECE", 10_000)
    pieces = encoding.cut(text)
    assert "".join(pieces) == text
    assert max(map(len, pieces)) <= 10_000 + (1 << 12)


def test_progress_counts_every_byte_of_text(tmp_path: Path, text_file: Path, wordpiece: Path) -> None:
    seen: list[int] = []
    build_corpus([str(text_file)], wordpiece, tmp_path / "out", progress=seen.append)
    assert sum(seen) == sum(len(text.encode()) for text in read_documents(str(text_file)))


SCRIPT = textwrap.dedent("""
    import sys, time
    import trueneg.corpus.build as build

    if __name__ == "__main__":
        source, tokenizer, out, workers = sys.argv[1:]
        build._UNIT_CHARACTERS = 1500
        build.build_corpus([source], tokenizer, out, workers=int(workers), valid=0.2, shard_tokens=700,
                           progress=lambda _: time.sleep(0.02))
""")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_build_goes_on_to_the_same_bytes(
    tmp_path: Path, text_file: Path, wordpiece: Path, workers: int
) -> None:
    script, out = tmp_path / "build.py", tmp_path / "killed"
    script.write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, str(script), str(text_file), str(wordpiece), str(out), str(workers)]
    process = subprocess.Popen(command, start_new_session=True)
    third = out / "train" / "00002.words.bin"
    while not third.exists() and process.poll() is None:
        time.sleep(0.005)
    time.sleep(random.random() * 0.1)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    with pytest.raises(CorpusError, match=r"unfinished: run the same 'trueneg corpus build' again"):
        Corpus.open(out)

    finished = {path: path.stat().st_mtime_ns for path in (out / "train").glob("0000[01].*.bin")}
    assert len(finished) == 6
    seen: list[int] = []
    options = {"valid": 0.2, "shard_tokens": 700}
    build_corpus([str(text_file)], wordpiece, out, progress=seen.append, **options)
    build_corpus([str(text_file)], wordpiece, tmp_path / "whole", **options)
    assert {path: path.stat().st_mtime_ns for path in finished} == finished
    assert contents(out) == contents(tmp_path / "whole")
    assert sum(seen) == sum(len(text.encode()) for text in read_documents(str(text_file)))


def test_workers_die_with_a_killed_parent(tmp_path: Path, text_file: Path, wordpiece: Path) -> None:
    script, out = tmp_path / "build.py", tmp_path / "killed"
    script.write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, str(script), str(text_file), str(wordpiece), str(out), "2"]
    process = subprocess.Popen(command, start_new_session=True)
    while not (out / "train" / "00000.words.bin").exists() and process.poll() is None:
        time.sleep(0.005)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 30
    while alive := is_group_alive(process.pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert not alive


def is_group_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    states = [path.read_text().rpartition(")")[2].split() for path in Path("/proc").glob("[0-9]*/stat")]
    return any(int(state[2]) == group and state[0] != "Z" for state in states)


def interrupt(_: int) -> None:
    raise KeyboardInterrupt


def test_an_interrupted_build_says_how_to_go_on(tmp_path: Path, text_file: Path, wordpiece: Path) -> None:
    with pytest.raises(Interrupted, match="run the same command again"):
        build_corpus([str(text_file)], wordpiece, tmp_path / "out", progress=interrupt, shard_tokens=3000)
    assert (tmp_path / "out" / "build.json").exists()
    assert not (tmp_path / "out" / "corpus.json").exists()


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ("tokenizer", r"\(tokenizer: \w+ -> \w+\)"),
        ("sources", r"\(sources: None -> \[.*documents\.txt.*\]; named: None -> .*documents\.txt\)"),
        ("valid", r"\(valid: None -> 0\.3\)"),
        ("shard_tokens", r"\(shard_tokens: 3000 -> 2000\)"),
        ("text", r"\(sources: \[.*a\.txt', \d+, \d+\] -> \[.*a\.txt', \d+, \d+\]\)"),
    ],
)
def test_an_unfinished_build_of_other_inputs_is_kept_unless_it_may_be_overwritten(
    tmp_path: Path, text_file: Path, wordpiece: Path, bpe: Path, changed: str, told: str
) -> None:
    source = tmp_path / "a.txt"
    source.write_bytes(text_file.read_bytes())
    given = {"sources": [str(source)], "tokenizer": wordpiece, "valid": None, "shard_tokens": 3000}
    with pytest.raises(Interrupted):
        build_corpus(out=tmp_path / "out", progress=interrupt, **given)
    if changed == "text":
        source.write_bytes(text_file.read_bytes().swapcase())
    else:
        values = {"tokenizer": bpe, "sources": [str(source), str(text_file)], "valid": 0.3, "shard_tokens": 2000}
        given[changed] = values[changed]
    before = contents(tmp_path / "out")
    with pytest.raises(CorpusError, match=rf"unfinished corpus of other inputs {told}: .*--out.*--overwrite"):
        build_corpus(out=tmp_path / "out", **given)
    assert contents(tmp_path / "out") == before
    build_corpus(out=tmp_path / "out", overwrite=True, **given)
    build_corpus(out=tmp_path / "fresh", **given)
    assert contents(tmp_path / "out") == contents(tmp_path / "fresh")


def test_an_unfinished_build_may_be_asked_to_overwrite_and_still_goes_on(
    tmp_path: Path, text_file: Path, wordpiece: Path
) -> None:
    given = {"sources": [str(text_file)], "tokenizer": wordpiece, "out": tmp_path / "out", "shard_tokens": 3000}
    with pytest.raises(Interrupted):
        build_corpus(progress=interrupt, overwrite=True, **given)
    first = tmp_path / "out" / "train" / "00000.tokens.bin"
    written = first.stat().st_mtime_ns
    build_corpus(overwrite=True, **given)
    assert first.stat().st_mtime_ns == written


def test_a_build_that_finished_no_shard_has_nothing_to_keep(tmp_path: Path, text_file: Path, wordpiece: Path) -> None:
    with pytest.raises(Interrupted):
        build_corpus([str(text_file)], wordpiece, tmp_path / "out", progress=interrupt)
    build_corpus([str(text_file)], wordpiece, tmp_path / "out", valid=0.3)
    build_corpus([str(text_file)], wordpiece, tmp_path / "fresh", valid=0.3)
    assert contents(tmp_path / "out") == contents(tmp_path / "fresh")


def test_a_torn_journal_is_refused(tmp_path: Path, text_file: Path, wordpiece: Path) -> None:
    given = {"sources": [str(text_file)], "tokenizer": wordpiece, "shard_tokens": 3000}
    with pytest.raises(Interrupted):
        build_corpus(out=tmp_path / "out", progress=interrupt, **given)
    (tmp_path / "out" / "build.json").write_text("{", encoding="utf-8")
    with pytest.raises(CorpusError, match=r"build\.json' is damaged: .*--overwrite"):
        build_corpus(out=tmp_path / "out", **given)
    build_corpus(out=tmp_path / "out", overwrite=True, **given)
    build_corpus(out=tmp_path / "fresh", **given)
    assert contents(tmp_path / "out") == contents(tmp_path / "fresh")


@pytest.mark.parametrize("field", ["num_documents", "num_tokens", "num_empty_documents", "num_unknown_tokens"])
def test_a_changed_count_of_the_journal_is_not_believed(
    tmp_path: Path, text_file: Path, wordpiece: Path, field: str
) -> None:
    given = {"sources": [str(text_file)], "tokenizer": wordpiece, "shard_tokens": 3000, "out": tmp_path / "out"}
    with pytest.raises(Interrupted):
        build_corpus(progress=interrupt, **given)
    change_number(tmp_path / "out" / "build.json", field)
    with pytest.raises(CorpusError, match=r"build\.json' was changed after it was written: .*--overwrite"):
        build_corpus(**given)


@pytest.mark.parametrize("part", ["tokens", "offsets", "words"])
def test_a_damaged_shard_of_an_unfinished_build_is_refused(
    tmp_path: Path, text_file: Path, wordpiece: Path, part: str
) -> None:
    given = {"sources": [str(text_file)], "tokenizer": wordpiece, "shard_tokens": 3000, "out": tmp_path / "out"}
    with pytest.raises(Interrupted):
        build_corpus(progress=interrupt, **given)
    file = tmp_path / "out" / "train" / f"00000.{part}.bin"
    file.write_bytes(file.read_bytes()[:-1] + b"\x55")
    with pytest.raises(CorpusError, match=rf"00000\.{part}\.bin' is damaged .*--overwrite"):
        build_corpus(**given)
    file.unlink()
    with pytest.raises(CorpusError, match=rf"00000\.{part}\.bin' .*--overwrite"):
        build_corpus(**given)
    build_corpus(overwrite=True, **given)
    build_corpus(**given | {"out": tmp_path / "fresh"})
    assert contents(tmp_path / "out") == contents(tmp_path / "fresh")


def test_a_kill_in_the_first_write_blocks_nothing(tmp_path: Path, text_file: Path, wordpiece: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "build.json.part").write_text("{", encoding="utf-8")
    build_corpus([str(text_file)], wordpiece, tmp_path / "out")
    assert not list((tmp_path / "out").glob("*.part"))


@pytest.mark.parametrize("content", [b"", b"\n \n\t\n"])
def test_an_empty_source_is_found_before_anything_is_built(
    tmp_path: Path, text_file: Path, wordpiece: Path, content: bytes
) -> None:
    (tmp_path / "z.txt").write_bytes(content)
    with pytest.raises(CorpusError, match=r"z\.txt' is empty"):
        build_corpus([str(text_file), str(tmp_path / "z.txt")], wordpiece, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("valid", [None, 0.3])
def test_half_a_surrogate_pair_stops_no_build(tmp_path: Path, wordpiece: Path, valid: float | None) -> None:
    def build(name: str, spelt: str) -> None:
        lines = [json.dumps({"text": text}) for text in documents(30)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join([*lines, f'{{"text": "the river {spelt}"}}']))
        build_corpus([str(tmp_path / f"{name}.jsonl")], wordpiece, tmp_path / name, valid=valid)

    with pytest.warns(TruenegWarning, match="half a surrogate pair .* 1 times"):
        build("half", "\\ud83d")
    build("replaced", "\\ufffd")
    half, replaced = (CorpusInfo.read(tmp_path / name) for name in ("half", "replaced"))
    assert half.fingerprint == replaced.fingerprint


def test_a_finished_corpus_is_not_overwritten_unasked(tmp_path: Path, text_file: Path, wordpiece: Path) -> None:
    out = tmp_path / "out"
    build_corpus([str(text_file)], wordpiece, out, valid=0.2)
    before = contents(out)
    with pytest.raises(CorpusError, match=r"finished corpus.*--overwrite"):
        build_corpus([str(text_file)], wordpiece, out)
    assert contents(out) == before
    info = build_corpus([str(text_file)], wordpiece, out, overwrite=True)
    assert CorpusInfo.read(out) == info
    assert not (out / "valid").exists()


def test_a_finished_corpus_of_the_same_inputs_is_kept(tmp_path: Path, text_file: Path, wordpiece: Path) -> None:
    out, source = tmp_path / "out", tmp_path / "a.txt"
    source.write_bytes(text_file.read_bytes())
    info = build_corpus([str(source)], wordpiece, out, valid=0.2)
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    assert build_corpus([str(source)], wordpiece, out, valid=0.2) == info
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before
    source.write_text(source.read_text() + "\n\nAnother one.\n")
    with pytest.raises(CorpusError, match=r"finished corpus.*--overwrite"):
        build_corpus([str(source)], wordpiece, out, valid=0.2)


@pytest.mark.parametrize("is_in_parts", [False, True])
def test_a_kill_between_the_last_two_files_blocks_nothing(
    tmp_path: Path, text_file: Path, wordpiece: Path, monkeypatch: pytest.MonkeyPatch, is_in_parts: bool
) -> None:
    out, unlink = tmp_path / "out", Path.unlink

    def killed(path: Path, missing_ok: bool = False) -> None:
        if path.name == "build.json":
            raise KeyboardInterrupt
        unlink(path, missing_ok)

    def make() -> CorpusInfo:
        if not is_in_parts:
            return build_corpus([str(text_file)], wordpiece, out)
        if not (out / "parts" / "plan.json").exists():
            build_part([str(text_file)], wordpiece, out, "1/1")
        return finish_corpus(out)

    with monkeypatch.context() as patch, pytest.raises((KeyboardInterrupt, Interrupted)):
        patch.setattr(Path, "unlink", killed)
        make()
    assert (out / "corpus.json").exists() and (out / "build.json").exists()
    info = make()
    assert CorpusInfo.read(out) == info and not (out / "build.json").exists()
    assert not (out / "parts").exists()


def test_a_name_that_is_not_utf8_is_refused(tmp_path: Path, text_file: Path, wordpiece: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.txt").write_bytes(text_file.read_bytes())
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.txt")).write_bytes(b"the river")
    with pytest.raises(CorpusError, match=r"caf\\xe9.txt': its name is not UTF-8: rename it"):
        build_corpus([str(folder)], wordpiece, tmp_path / "out")


def test_pieces_of_a_unigram_model_are_no_special_tokens(tmp_path: Path) -> None:
    """As in XLM-R: its special tokens are pieces with score 0, better than any other."""
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    letters = [(letter, -9.0) for letter in "\u2581<>/_abcdefghijklmnopqrstuvwxyz"]
    words = [("\u2581" + word, -5.0) for word in ("the", "old", "price", "river")]
    pieces = [*((token, 0.0) for token in special), *letters, *words, ("<mask>", 0.0)]
    backend = Tokenizer(models.Unigram(pieces, unk_id=3))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    roles = dict(zip(("bos", "pad", "eos", "unk"), special, strict=True))
    fast = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        **{f"{role}_token": token for role, token in roles.items()},
        **{"cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>"},
    )
    fast.save_pretrained(tmp_path / "tok")
    (tmp_path / "a.txt").write_text("old <s>price</s> the <mask> river <pad>\n\nthe old river")
    with pytest.warns(TruenegWarning, match="unknown"):
        info = build_corpus([str(tmp_path / "a.txt")], tmp_path / "tok", tmp_path / "out")
    first, second = (Corpus.open(tmp_path / "out").document(number).tolist() for number in (0, 1))
    assert {*first} & {*fast.all_special_ids} == {fast.unk_token_id}
    assert fast.convert_ids_to_tokens(second) == ["\u2581the", "\u2581old", "\u2581river"]
    assert info.splits["train"].num_unknown_tokens == first.count(fast.unk_token_id) > 3


def test_long_texts_are_cut_where_no_token_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Llama 3's pattern, and others after it, join line breaks to punctuation before them."""
    pattern = r" ?[^\s\p{L}\p{N}]+[\r\n]*|[^\r\n\p{L}\p{N}]?\p{L}+|\s*[\r\n]+|\s+"
    backend = Tokenizer(models.BPE(unk_token=None))
    parts = [pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
    backend.pre_tokenizer = pre_tokenizers.Sequence(parts)
    lines = ["The river is old.", "We see a film!", "no end", "(so it is)"] * 40
    text = "\n".join(lines)
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, show_progress=False, initial_alphabet=letters)
    backend.train_from_iterator([text], trainer)
    whole = backend.encode(text, add_special_tokens=False).ids
    assert ".\u010a" in {backend.id_to_token(token) for token in whole}
    monkeypatch.setattr(encoding, "_PIECE_CHARACTERS", 16)
    assert len(encoding.cut(text)) > 20
    assert encoding.CorpusTokenizer(backend)([text]).tokens.tolist() == whole


def test_text_held_out_must_not_be_trained_on(tmp_path: Path, text_file: Path, wordpiece: Path) -> None:
    link = tmp_path / "held-out.txt"
    link.hardlink_to(text_file)
    for name in (text_file, link):
        with pytest.raises(CorpusError, match="also a file to train on"):
            build_corpus([str(text_file)], wordpiece, tmp_path / "out", valid=str(name))
    assert not (tmp_path / "out").exists()
    link.unlink()
    link.write_text(text_file.read_text() + "\n\nAnother one.\n")
    with pytest.warns(TruenegWarning, match="of .* different held-out documents are also among those to train on"):
        build_corpus([str(text_file)], wordpiece, tmp_path / "out", valid=str(link))


def test_a_fraction_of_one_document_asks_for_lines(tmp_path: Path, wordpiece: Path) -> None:
    (tmp_path / "a.txt").write_text("the dog runs\n" * 20)
    with pytest.raises(CorpusError, match=r"there is 1 document: .*--lines"):
        build_corpus([str(tmp_path / "a.txt")], wordpiece, tmp_path / "out", valid=0.01)


def test_what_is_odd_in_a_folder_is_told_once(tmp_path: Path, wordpiece: Path) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("the dog runs\n\nthe dog walks\n")
    (tmp_path / "texts" / "b.docx").write_bytes(b"x")
    (tmp_path / "texts" / "c.txt").write_bytes(b"")
    with pytest.warns(TruenegWarning) as told:
        build_corpus([str(tmp_path / "texts")], wordpiece, tmp_path / "out")
    assert sorted(str(each.message).partition(": ")[2][:6] for each in told) == ["1 of 2", "1 of 3"]


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, text_file: Path, wordpiece: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious", encoding="utf-8")
    with pytest.raises(CorpusError, match="not empty and holds no corpus"):
        build_corpus([str(text_file)], wordpiece, tmp_path)
    assert contents(tmp_path) == {"thesis.tex": b"precious"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"valid": 1.5}, "--valid 1.5"),
        ({"valid": "0"}, "--valid 0"),
        ({"valid": "no/such.txt"}, "no such file"),
        ({"valid": 1e-9}, "holds out no text"),
        ({"workers": 0}, "at least 1"),
        ({"shard_tokens": 0}, "at least 1"),
        ({"sources": []}, "no source"),
        ({"sources": ["no/such.txt"]}, "no such file"),
    ],
)
def test_impossible_options_are_refused(
    tmp_path: Path, text_file: Path, wordpiece: Path, options: dict[str, object], message: str
) -> None:
    given: dict[str, object] = {"sources": [str(text_file)], "tokenizer": wordpiece, "out": tmp_path / "out"}
    with pytest.raises(CorpusError, match=message):
        build_corpus(**given | options)  # type: ignore[arg-type]


def test_text_without_tokens_is_refused(tmp_path: Path, wordpiece: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": ""}\n', encoding="utf-8")
    with pytest.raises(CorpusError, match="no text for training"):
        build_corpus([str(tmp_path / "a.jsonl")], wordpiece, tmp_path / "out")


def test_a_missing_tokenizer_is_refused(tmp_path: Path, text_file: Path) -> None:
    with pytest.raises(ModelError, match="no tokenizer"):
        build_corpus([str(text_file)], tmp_path / "nothing", tmp_path / "out")


def test_a_full_disk_is_a_users_error_and_the_build_goes_on_later(
    tmp_path: Path, text_file: Path, wordpiece: Path
) -> None:
    out = tmp_path / "out"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))  # the system's nearest thing to a full disk
    try:
        with pytest.raises(TruenegError, match=os.strerror(errno.EFBIG)) as caught:
            build_corpus([str(text_file)] * 3, wordpiece, out)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "run the same command again" in str(caught.value)
    build_corpus([str(text_file)] * 3, wordpiece, out)
    build_corpus([str(text_file)] * 3, wordpiece, tmp_path / "whole")
    assert contents(out) == contents(tmp_path / "whole")
