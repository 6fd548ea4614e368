from __future__ import annotations

import io
import json
import shutil
import time
from pathlib import Path

import pytest
from huggingface_hub import HfApi
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from trueneg.corpus.tokenizer_training import extend_tokenizer, train_tokenizer
from trueneg.errors import CorpusError, ModelError, TruenegWarning
from trueneg.tokenizer import fingerprint, load_tokenizer, save_tokenizer, special_ids

TEXT = "The river sang in the Morning; the painter's café, the river stone.\nUnbelievable mountain rivers!\n\n" * 5
SIZES = {"wordpiece": 70, "bpe": 300}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("text") / "a.txt"
    path.write_text(TEXT, encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module", params=["wordpiece", "bpe"])
def trained(request: pytest.FixtureRequest, source: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer") / request.param
    train_tokenizer([source], folder, kind=request.param, vocab_size=SIZES[request.param])
    return folder


def test_a_trained_tokenizer_loads_and_has_what_pre_training_needs(trained: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(str(trained))
    assert isinstance(tokenizer, PreTrainedTokenizerFast)
    assert len(tokenizer) == SIZES[trained.name]
    assert None not in special_ids(tokenizer).values()
    spelt = {
        "wordpiece": ["[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]"],
        "bpe": ["<s>", "</s>", "<pad>", "<unk>", "<mask>"],
    }
    roles = ("cls", "sep", "pad", "unk", "mask")
    assert [getattr(tokenizer, f"{role}_token") for role in roles] == spelt[trained.name]
    assert set(spelt[trained.name]) == set(tokenizer.convert_ids_to_tokens(range(5)))


def test_it_frames_texts_and_pairs_as_the_original_models(trained: Path) -> None:
    tokenizer = load_tokenizer(trained)
    one, two = (
        tokenizer("river", add_special_tokens=False)["input_ids"],
        tokenizer("the stone", add_special_tokens=False)["input_ids"],
    )
    start, end = tokenizer.cls_token_id, tokenizer.sep_token_id
    pair = tokenizer("river", "the stone")
    assert tokenizer("river")["input_ids"] == [start, *one, end]
    if trained.name == "wordpiece":
        assert pair["input_ids"] == [start, *one, end, *two, end]
        assert pair["token_type_ids"] == [0] * (len(one) + 2) + [1] * (len(two) + 1)
    else:
        assert pair["input_ids"] == [start, *one, end, end, *two, end]
        assert "token_type_ids" not in pair


def test_it_reads_back_its_text(trained: Path) -> None:
    tokenizer = load_tokenizer(trained)
    text = "the river sang in the morning"
    assert tokenizer.decode(tokenizer(text)["input_ids"], skip_special_tokens=True) == text
    assert tokenizer.tokenize("River") == tokenizer.tokenize("river")


def test_case_is_kept_on_request(tmp_path: Path, source: str) -> None:
    for kind, size in SIZES.items():
        tokenizer = train_tokenizer([source], tmp_path / kind, kind=kind, vocab_size=size, lowercase=False)
        assert tokenizer.tokenize("Morning") != tokenizer.tokenize("morning")


def test_training_gives_the_same_each_time(tmp_path: Path, trained: Path, source: str) -> None:
    again = train_tokenizer([source], tmp_path / "again", kind=trained.name, vocab_size=SIZES[trained.name])
    assert fingerprint(again) == fingerprint(load_tokenizer(trained))
    other = train_tokenizer([source], tmp_path / "other", kind=trained.name, vocab_size=SIZES[trained.name] - 1)
    assert fingerprint(other) != fingerprint(again)


@pytest.mark.parametrize("kind", ["wordpiece", "bpe"])
def test_too_little_text_says_how_many_entries_there_are(tmp_path: Path, source: str, kind: str) -> None:
    with pytest.warns(TruenegWarning, match=r"has \d+ entries, not 8,192"):
        tokenizer = train_tokenizer([source], tmp_path, kind=kind, vocab_size=8192)
    assert len(tokenizer) < 8192


def test_every_line_may_be_a_document(tmp_path: Path, trained: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT * 200 + "no blank line\n" * 1200)
    (tmp_path / "b.txt").write_text("river stone and café\n" * 1200)
    with pytest.warns(TruenegWarning, match="--lines"):
        train_tokenizer([str(tmp_path / "b.txt")], tmp_path / "tok", vocab_size=40)
    train_tokenizer([str(tmp_path / "b.txt")], tmp_path / "tok-lines", vocab_size=40, lines=True)
    with pytest.raises(CorpusError, match="--max-document-mib"):
        train_tokenizer([str(tmp_path / "a.txt")], tmp_path / "tok", max_document_mib=1e-5)


def test_a_sample_is_a_part(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("\n\n".join(f"w{i:03d}" for i in range(500)), encoding="utf-8")
    sizes = []
    for seed in (0, 0, 1):
        with pytest.warns(TruenegWarning, match="entries"):
            tokenizer = train_tokenizer(
                [str(path)], tmp_path / "t", vocab_size=2000, min_frequency=1, sample=0.3, seed=seed
            )
        sizes.append(fingerprint(tokenizer))
        words = {token for token in tokenizer.get_vocab() if len(token) == 4 and token.startswith("w")}
        assert 80 < len(words) < 220
    assert sizes[0] == sizes[1] != sizes[2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "unigram"}, "wordpiece or bpe"),
        ({"sample": 0.0}, "--sample"),
        ({"vocab_size": 5}, "no room"),
        ({"kind": "bpe", "vocab_size": 200}, "no room for the alphabet of 261"),
    ],
)
def test_impossible_options_are_refused(tmp_path: Path, source: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        train_tokenizer([source], tmp_path, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["wordpiece", "bpe"])
def test_no_text_is_refused(tmp_path: Path, kind: str) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "\\u0000"}', encoding="utf-8")
    with pytest.raises(CorpusError, match="too little text"):
        train_tokenizer([str(tmp_path / "a.jsonl")], tmp_path / "out", kind=kind)


@pytest.mark.parametrize("kind", SIZES)
def test_half_a_surrogate_pair_stops_no_training(tmp_path: Path, source: str, kind: str) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "the dog \\ud83d ran"}', encoding="utf-8")
    with pytest.warns(TruenegWarning, match="half a surrogate pair .* 1 times") as told:
        train_tokenizer([source, str(tmp_path / "a.jsonl")], tmp_path / "out", kind=kind, vocab_size=SIZES[kind])
    assert len(told) == 1


def test_added_words_are_matched_whole(tmp_path: Path, trained: Path) -> None:
    before = load_tokenizer(trained)
    num_added, known = extend_tokenizer(trained, ["bradykinin", "river", "COX-2", "cox-2", "bradykinin"], tmp_path)
    after = load_tokenizer(tmp_path)
    assert num_added == 2
    assert known == ["river"]
    assert len(after) == len(before) + 2
    assert {id_: token for token, id_ in after.get_vocab().items() if id_ < len(before)} == {
        id_: token for token, id_ in before.get_vocab().items()
    }
    new = [after.convert_tokens_to_ids(word) for word in ("bradykinin", "cox-2")]
    assert sorted(new) == [len(before), len(before) + 1]
    for text in ("bradykinin", "the Bradykinin, in", "(bradykinin) the", "the\nbradykinin"):
        assert after(text)["input_ids"].count(new[0]) == 1
    assert after("the COX-2 river")["input_ids"].count(new[1]) == 1
    for text in ("bradykinins", "xbradykinin", "the rivers", "cox-25"):
        assert after(text)["input_ids"] == before(text)["input_ids"]
    text = "the bradykinin river"
    assert after.decode(after(text)["input_ids"], skip_special_tokens=True) == text
    assert fingerprint(after) != fingerprint(before)


def test_nothing_to_add_changes_nothing(tmp_path: Path, trained: Path) -> None:
    assert extend_tokenizer(trained, ["river"], tmp_path) == (0, ["river"])
    assert fingerprint(load_tokenizer(tmp_path)) == fingerprint(load_tokenizer(trained))


@pytest.mark.parametrize("word", ["", "two words", "a\n"])
def test_what_is_no_word_is_refused(tmp_path: Path, trained: Path, word: str) -> None:
    with pytest.raises(ModelError, match="cannot add"):
        extend_tokenizer(trained, ["fine", word], tmp_path)


def test_an_added_word_is_a_word_of_a_corpus(tmp_path: Path, trained: Path) -> None:
    from trueneg.corpus.build import build_corpus
    from trueneg.corpus.rows import RowIndex
    from trueneg.corpus.store import Corpus

    extend_tokenizer(trained, ["bradykinin"], tmp_path / "tokenizer")
    (tmp_path / "a.txt").write_text("the bradykinin river", encoding="utf-8")
    build_corpus([str(tmp_path / "a.txt")], tmp_path / "tokenizer", tmp_path / "corpus")
    rows = RowIndex(Corpus.open(tmp_path / "corpus"), 5)
    import numpy as np

    batch = rows.read(np.arange(len(rows)))
    added = load_tokenizer(tmp_path / "tokenizer").convert_tokens_to_ids("bradykinin")
    assert batch.is_whole_word[batch.input_ids == added].tolist() == [True]


def test_a_fingerprint_ignores_the_settings_of_a_call(trained: Path) -> None:
    tokenizer = load_tokenizer(trained)
    before = fingerprint(tokenizer)
    tokenizer(["the river", "the"], padding=True, truncation=True, max_length=3)
    assert fingerprint(tokenizer) == before


def test_a_tokenizer_that_cannot_be_used_is_refused(tmp_path: Path, trained: Path) -> None:
    with pytest.raises(ModelError, match="no tokenizer at"):
        load_tokenizer(tmp_path / "nothing")
    with pytest.raises(ModelError, match="'nofolder/', no such folder"):
        load_tokenizer("nofolder/")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match="cannot load a tokenizer"):
        load_tokenizer(tmp_path / "empty")
    rules = json.loads((trained / "tokenizer.json").read_text())
    rules["model"]["vocab"]["the"] = "seven"
    shutil.copytree(trained, tmp_path / "texts")
    for content in (json.dumps(rules), "[" * 100_000, "[]"):
        (tmp_path / "texts" / "tokenizer.json").write_text(content)
        with pytest.raises(ModelError, match="cannot load a tokenizer"):
            load_tokenizer(tmp_path / "texts")
    (tmp_path / "texts" / "tokenizer_config.json").write_text("[" * 100_000)
    with pytest.raises(ModelError, match="cannot load a tokenizer"):
        load_tokenizer(tmp_path / "texts")
    maskless = AutoTokenizer.from_pretrained(str(trained))
    maskless.mask_token = None
    maskless.save_pretrained(str(tmp_path / "maskless"))
    with pytest.raises(ModelError, match="no mask token"):
        load_tokenizer(tmp_path / "maskless")


def test_without_a_network_a_hub_name_fails_fast_and_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: object, timeout: float, **__: object) -> None:
        assert timeout <= 10
        raise ConnectionError("Name or service not known")

    monkeypatch.setattr(HfApi, "model_info", unreachable)
    start = time.monotonic()
    with pytest.raises(ModelError, match=r"the hub cannot be reached: .*tokenizer\.json.*HF_HUB_OFFLINE"):
        load_tokenizer("owner/never-fetched")
    assert time.monotonic() - start < 5


def test_a_full_disk_is_an_ordinary_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library raises a bare Exception, which nobody would catch for it."""
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel({"[UNK]": 0})))

    def fill(*_: object, **__: object) -> None:
        raise Exception("No space left on device (os error 28)")

    monkeypatch.setattr(type(tokenizer), "save_pretrained", fill)
    with pytest.raises(OSError, match="No space left"):
        save_tokenizer(tokenizer, tmp_path)


def test_code_of_a_tokenizer_is_never_run(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers by itself asks on the terminal, and runs it on a yes."""
    folder, marker = tmp_path / "remote", tmp_path / "it_ran"
    shutil.copytree(trained, folder)
    path = folder / "tokenizer_config.json"
    foreign = {"tokenizer_class": "Foreign", "auto_map": {"AutoTokenizer": ["foreign.Foreign", "foreign.Foreign"]}}
    path.write_text(json.dumps(json.loads(path.read_text()) | foreign))
    code = f"open({str(marker)!r}, 'w').close()\nfrom transformers import BertTokenizerFast as Foreign\n"
    (folder / "foreign.py").write_text(code)
    monkeypatch.setattr("sys.stdin", io.StringIO("y\ny\n"))
    with pytest.raises(ModelError, match=rf"the tokenizer of '{folder}' is code of its own, which is never run"):
        load_tokenizer(folder)
    assert not marker.exists()


def test_a_saved_tokenizer_has_no_settings_of_earlier_calls(trained: Path, tmp_path: Path) -> None:
    raw = Tokenizer.from_file(str(trained / "tokenizer.json"))
    raw.enable_truncation(12)
    raw.enable_padding(length=12, pad_token=special_pad(trained))
    shutil.copytree(trained, tmp_path / "source")
    raw.save(str(tmp_path / "source" / "tokenizer.json"))
    assert len(Tokenizer.from_file(str(tmp_path / "source" / "tokenizer.json")).encode("river").ids) == 12
    tokenizer = load_tokenizer(tmp_path / "source")
    save_tokenizer(tokenizer, tmp_path / "saved")
    plain = Tokenizer.from_file(str(tmp_path / "saved" / "tokenizer.json"))
    assert len(plain.encode("river").ids) < 12 < len(plain.encode(TEXT).ids)
    settings = (tmp_path / "saved" / "tokenizer_config.json").read_text()
    assert not any(f'"{name}"' in settings for name in ("is_local", "local_files_only", "max_length", "name_or_path"))
    assert fingerprint(AutoTokenizer.from_pretrained(tmp_path / "saved")) == fingerprint(tokenizer)


def special_pad(folder: Path) -> str:
    return str(AutoTokenizer.from_pretrained(folder).pad_token)
