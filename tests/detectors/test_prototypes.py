"""Prototypes: averages of contextual vectors, and what they score, annotate and credit, each against plain code."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from tiny_encoders import (
    TEXT,
    WORDNET,
    WrittenDetector,
    at,
    byte_level,
    encode_rows,
    masked_at,
    save_checkpoint,
    wordpiece,
)
from transformers import AutoConfig, AutoModelForMaskedLM

import tiny
from trueneg.config.objective_options import CorrectionConfig
from trueneg.corpus.annotate import Accepted, write_annotations
from trueneg.corpus.annotations import Annotations
from trueneg.corpus.build import build_corpus
from trueneg.corpus.rows import RowIndex
from trueneg.corpus.store import Corpus
from trueneg.corruption.rows import MaskedRows, read_rows
from trueneg.detectors import make_detector, make_scorer
from trueneg.detectors.annotator import DetectorAnnotator, make_annotator
from trueneg.detectors.base import credit_of
from trueneg.detectors.ema import EmaDetector
from trueneg.detectors.online import OnlineDetector
from trueneg.detectors.prototype_detector import PrototypeDetector, TextRowReader, prototype_table
from trueneg.detectors.scorers.prototypes import Prototypes, learn_prototypes
from trueneg.detectors.specification import Resources
from trueneg.errors import ConfigError, ModelError
from trueneg.files.arrays import ArrayFile
from trueneg.models.reading import WINDOW, TextEncoder
from trueneg.objectives.correction import HardCorrection
from trueneg.objectives.mlm import MaskedLM
from trueneg.tokenizer import load_tokenizer, save_tokenizer

LENGTH = 14
ORIGIN = {"encoder": "bert", "layer": "1"}
RESOURCES = Resources(wordnet=str(WORDNET))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return make_corpus(tmp_path_factory.mktemp("wordpiece"), wordpiece())


def make_corpus(folder: Path, tokenizer: object, times: int = 1) -> Corpus:
    save_tokenizer(tokenizer, folder / "tok")  # type: ignore[arg-type]
    text = folder / "text.txt"
    text.write_text("\n\n".join(" ".join((TEXT[first:] + TEXT[:first]) * times) for first in range(len(TEXT))))
    build_corpus([str(text)], folder / "tok", folder / "corpus")
    return Corpus.open(folder / "corpus")


@pytest.fixture(scope="module")
def file(corpus: Corpus, bert: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("prototypes") / "p.safetensors"
    learn_prototypes(bert, corpus, layer=1, length=LENGTH, min_count=2).save(path)
    return str(path)


def test_they_are_the_mean_of_each_words_vectors(corpus: Corpus, bert: str) -> None:
    learned = learn_prototypes(bert, corpus, layer=1, length=LENGTH, min_count=1, batch_size=3)
    encoder, tokenizer = TextEncoder(bert, (1,)), load_tokenizer(corpus.path / "tokenizer")
    seen: dict[str, list[np.ndarray]] = defaultdict(list)
    index = RowIndex(corpus, LENGTH)
    batch = index.read(np.arange(len(index)))
    for ids, special, whole in zip(batch.input_ids, batch.is_special, batch.is_whole_word, strict=True):
        words = tokenizer.convert_ids_to_tokens(ids[~special].tolist())
        text = " ".join(words)
        start = 0
        for word, is_whole in zip(words, whole[~special], strict=True):
            if is_whole and len(word) > 2 and word in ("large", "mouse", "city", "river", "primary"):
                seen[word].append(encoder.vectors([(text, start, start + len(word))])[0, 0])
            start += len(word) + 1
    assert set(seen) == {"large", "mouse", "city", "river", "primary"}
    for word, vectors in seen.items():
        mean = np.mean(vectors, axis=0)
        row = learned.find(word)
        assert row is not None and learned.counts[row] == len(vectors)
        np.testing.assert_allclose(learned.matrix[row], mean / np.linalg.norm(mean), atol=0.02)
    assert learned.find("the") is None, "stop words have none"


def test_rare_words_have_none_and_a_file_keeps_them(corpus: Corpus, bert: str, file: str) -> None:
    loaded = Prototypes.load(file)
    assert (loaded.counts >= 2).all() and loaded.provenance["layer"] == "1"
    again = learn_prototypes(bert, corpus, layer=1, length=LENGTH, min_count=2)
    assert loaded.words == again.words
    np.testing.assert_allclose(loaded.matrix, again.matrix, atol=1e-3)
    assert loaded.provenance["num_words"] == str(len(loaded.words))
    with pytest.raises(ModelError, match="no word occurs 1000 times"):
        learn_prototypes(bert, corpus, length=LENGTH, min_count=1000)


def test_another_file_is_refused(tmp_path: Path) -> None:
    save_file({"x": np.zeros(1)}, str(tmp_path / "other.safetensors"))
    with pytest.raises(ModelError, match="holds no prototypes"):
        Prototypes.load(tmp_path / "other.safetensors")


def made_up(**changes: object) -> Prototypes:
    vectors = np.array([[1, 0], [0.6, 0.8]], np.float32)
    fields = {"words": ("big", "ü"), "matrix": vectors, "counts": np.array([2, 3]), "provenance": ORIGIN} | changes
    return Prototypes(**fields)  # type: ignore[arg-type]


def test_flipped_bits_of_a_file_are_noticed(tmp_path: Path) -> None:
    made_up().save(tmp_path / "p")
    content = (tmp_path / "p").read_bytes()
    assert Prototypes.load(tmp_path / "p").words == ("big", "ü")
    for batch in range(0, len(content), 7):
        changed = bytearray(content)
        changed[batch] ^= 1 << batch % 8
        (tmp_path / "odd").write_bytes(changed)
        with pytest.raises(ModelError, match=r"odd'.*detect prototypes"):
            Prototypes.load(tmp_path / "odd")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"matrix": np.array([[1, 0], [np.inf, 0]], np.float16)}, "not finite"),
        ({"matrix": np.array([[1, 0], [np.nan, 0]], np.float16)}, "not finite"),
        ({"matrix": np.ones((3, 2), np.float16)}, "2 words, a matrix"),
        ({"matrix": np.ones(2, np.float16)}, "2 words, a matrix"),
        ({"counts": np.array([1])}, "counts"),
        ({"words": np.array([255, 10, 65], np.uint8)}, "utf-8"),
        ({"about": {"layer": "1"}}, "encoder"),
        ({"about": {"encoder": "bert", "layer": "-1"}}, "layer"),
        ({"about": {"encoder": "bert"}}, "layer"),
    ],
)
def test_prototypes_that_cannot_be_are_refused_whatever_their_checksum(
    tmp_path: Path, changes: dict[str, Any], named: str
) -> None:
    arrays = {"matrix": np.eye(2, dtype=np.float16), "counts": np.array([2, 3]), "words": np.array([65, 10, 66], "u1")}
    about = changes.pop("about", ORIGIN)
    ArrayFile("prototypes", "1", ModelError, "").write(tmp_path / "p", {**arrays, **changes}, about)
    with pytest.raises(ModelError, match=rf"p' is damaged \(.*{named}.*detect prototypes"):
        Prototypes.load(tmp_path / "p")


def test_vectors_that_are_not_finite_are_never_prototypes() -> None:
    with pytest.raises(ModelError, match="not finite"):
        made_up(matrix=np.array([[1, 0], [np.nan, 0]], np.float32))


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ModelError, match="cannot write the prototypes"):
        made_up().save(tmp_path / "file" / "p")


def test_the_scorer_compares_with_them(file: str, bert: str) -> None:
    scorer = make_scorer(f"prototypes:{file}@0.3", RESOURCES)
    loaded, encoder = Prototypes.load(file), TextEncoder(bert, (1,))
    asked = [at(TEXT[0], "large", "big"), at(TEXT[0], "large", "city"), at(TEXT[3], "movie", "film")]
    vectors = encoder.vectors([(s.text, s.start, s.end) for s in asked])[:, 0]
    expected = [
        max(0.0, float(v @ loaded.matrix[loaded.index[s.substitute]] / np.linalg.norm(v)))
        for s, v in zip(asked, vectors, strict=True)
    ]
    np.testing.assert_allclose(scorer.scores(asked), expected, atol=0.02)
    assert scorer.threshold == 0.3
    unknown = scorer.scores([at(TEXT[0], "large", "unheard"), at(TEXT[0], "large", "very large")])
    assert unknown.tolist() == [0.0, 0.0]


@pytest.fixture(params=["documents", "packed"])
def rows(request: pytest.FixtureRequest) -> tiny.Rows:
    documents = [[TEXT[0]], [TEXT[3]]] if request.param == "documents" else [[TEXT[0], TEXT[1]], [TEXT[3], TEXT[2]]]
    return encode_rows(wordpiece(), documents, length=32)


def test_the_detector_agrees_with_the_scorer(file: str, rows: tiny.Rows) -> None:
    """Same words, same sentences: on tensors, and as text."""
    tokenizer = wordpiece()
    spec = f"prototypes:{file}[top=4]@0.05"
    detector = make_detector(CorrectionConfig(detector=spec), tokenizer)
    assert isinstance(detector, PrototypeDetector)
    asked = OnlineDetector(make_scorer(spec, RESOURCES), tokenizer)
    batch = masked_at(rows, [[2, 3, 7], [2, 5, 6]])
    names = [["big", "city", "main"], ["film", "chief", "animal"]]
    predicted = torch.tensor([tokenizer.convert_tokens_to_ids(row) for row in names])
    ours, theirs = (one.credit(batch.gold, predicted, batch) for one in (detector, asked))
    np.testing.assert_allclose(ours, theirs, atol=0.03)
    assert 0 < int((ours >= 0.5).sum()) < ours.numel()
    tokens, credit = detector.propose(batch.gold, predicted, batch)[1:]
    assert tokens.shape == credit.shape == (2, 3, 4)
    assert not ((tokens == batch.gold.unsqueeze(-1)) & (credit > 0)).any()
    for n in range(4):
        np.testing.assert_allclose(detector.credit(batch.gold, tokens[..., n], batch), credit[..., n], atol=1e-5)
    assert (credit[..., :-1] >= credit[..., 1:]).all()


@pytest.mark.parametrize("detector", ["P", "ema", "P & ema & !lexical", "P | lexical | !ema"])
@pytest.mark.parametrize("use", ["drop", "marginal", "soft_targets"])
def test_each_encoder_reads_a_batch_once_a_step(detector: str, use: Any, file: str, rows: tiny.Rows) -> None:
    """Credit for the log and substitutes for the loss come from one forward pass."""
    tokenizer = wordpiece()
    specification = detector.replace("P", f"prototypes:{file}@0.05")
    made = make_detector(CorrectionConfig(detector=specification, wordnet=str(WORDNET)), tokenizer)
    objective = MaskedLM(tiny.make_masking(rate=0.5), HardCorrection(made, use))
    model = tiny.make_masked_lm(vocab_size=len(tokenizer))
    objective.attach(model)
    passes = {type(part): 0 for part in made.modules() if isinstance(part, PrototypeDetector | EmaDetector)}

    def count(part: Any) -> Any:
        def called(*_: Any) -> None:
            passes[type(part)] += 1

        return called

    for part in made.modules():
        if isinstance(part, EmaDetector):
            assert part.teacher is not None
            part.teacher.model.base_model.register_forward_hook(count(part))
        elif isinstance(part, PrototypeDetector):
            part.vectors.encoder.model.register_forward_hook(count(part))
    objective(model, objective.corrupt(rows)).terms["mlm"].backward()
    assert passes and set(passes.values()) == {1}


def test_the_detector_compiles(file: str, rows: tiny.Rows) -> None:
    detector = make_detector(CorrectionConfig(detector=f"prototypes:{file}@0.05"), wordpiece())
    batch = masked_at(rows, [[2, 3, 7], [2, 5, 6]])
    predicted = batch.gold.flip(1)
    compiled = torch.compile(detector.credit, backend="eager", fullgraph=True)
    assert torch.equal(compiled(batch.gold, predicted, batch), detector.credit(batch.gold, predicted, batch))


def test_credit_is_float32_and_so_are_cosines_whatever_the_step_is_computed_in(file: str, rows: tiny.Rows) -> None:
    """As it was in bfloat16, of which a cosine of 0.62 has neighbours 0.004 away, verdicts turned round."""
    detector = make_detector(CorrectionConfig(detector=f"prototypes:{file}[top=4]@0.05"), wordpiece())
    assert isinstance(detector, PrototypeDetector)
    batch = masked_at(rows, [[2, 3, 7], [2, 5, 6]])
    table = prototype_table(Prototypes.load(file), wordpiece())
    tokens = torch.arange(len(table)).expand(*batch.gold.shape, -1)
    with torch.autocast("cpu", torch.bfloat16):
        vectors = detector.vectors(batch)
        credit = detector.credit(batch.gold.unsqueeze(-1), tokens, batch)
        nearest, listed_credit = detector.propose(batch.gold, batch.gold, batch)[1:]
    assert vectors.dtype == credit.dtype == listed_credit.dtype == torch.float32
    torch.testing.assert_close(vectors.norm(dim=-1), torch.ones(batch.gold.shape), atol=1e-5, rtol=0)
    wanted = credit_of(vectors @ table.T, 0.05)
    is_credited = credit > 0
    assert int(is_credited.sum()) > 5
    torch.testing.assert_close(credit[is_credited], wanted[is_credited], atol=1e-6, rtol=0)
    is_listed = listed_credit > 0
    torch.testing.assert_close(listed_credit[is_listed], wanted.gather(2, nearest)[is_listed], atol=1e-6, rtol=0)


def prototypes_of(checkpoint: str, folder: Path) -> PrototypeDetector:
    words = ("film", "movie", "large", "mouse")
    matrix = np.random.default_rng(0).normal(size=(len(words), 32)).astype(np.float32)
    about = {"encoder": checkpoint, "layer": "1", "corpus": "none"}
    Prototypes(words, matrix, np.full(len(words), 9), about).save(folder / "made_up.safetensors")
    config = CorrectionConfig(detector=f"prototypes:{folder / 'made_up.safetensors'}@0.1")
    detector = make_detector(config, wordpiece())
    assert isinstance(detector, PrototypeDetector)
    return detector


@pytest.mark.parametrize(("architecture", "longest"), [("bert", 64), ("roberta", 63)])
def test_rows_longer_than_the_encoder_has_positions_are_refused(
    architecture: str, longest: int, tmp_path: Path
) -> None:
    detector = prototypes_of(save_checkpoint(architecture, wordpiece(), tmp_path / "enc"), tmp_path)
    for length in (longest, longest + 1):
        batch = masked_at(encode_rows(wordpiece(), [[TEXT[0]]], length=length), [[2, 3]])
        if length == longest:
            assert detector.credit(batch.gold, batch.gold, batch).shape == (1, 2)
            continue
        for ask in (detector.credit, detector.propose):
            with pytest.raises(ConfigError, match=rf"corpus.length={length}: .* has only {longest} positions: shorten"):
                ask(batch.gold, batch.gold, batch)


def test_packed_rows_are_refused_where_the_encoder_would_mix_documents(tmp_path: Path) -> None:
    tokenizer = wordpiece()
    config = AutoConfig.for_model(
        "convbert",
        **{"vocab_size": len(tokenizer), "hidden_size": 32, "embedding_size": 16, "intermediate_size": 32},
        **{"num_hidden_layers": 2, "num_attention_heads": 2, "conv_kernel_size": 3},
    )
    AutoModelForMaskedLM.from_config(config).save_pretrained(tmp_path / "enc")
    save_tokenizer(tokenizer, tmp_path / "enc")
    detector = prototypes_of(str(tmp_path / "enc"), tmp_path)
    alone, packed = (masked_at(encode_rows(tokenizer, [texts], length=32), [[2, 3]]) for texts in (TEXT[:1], TEXT[:2]))
    assert detector.credit(alone.gold, alone.gold, alone).shape == (1, 2)
    with pytest.raises(ConfigError, match=r"corpus.pack: .*'prototypes'.* leave --pack out, or annotate the corpus"):
        detector.credit(packed.gold, packed.gold, packed)


def test_only_whole_words_of_one_kind_are_credited(file: str, rows: tiny.Rows) -> None:
    tokenizer = wordpiece()
    detector = make_detector(CorrectionConfig(detector=f"prototypes:{file}@0.001"), tokenizer)
    batch = masked_at(rows, [[1, 2], [1, 2]])  # "the" and another word
    the, film = tokenizer.convert_tokens_to_ids(["the", "film"])
    assert detector.credit(batch.gold, torch.full_like(batch.gold, film), batch)[:, 0].tolist() == [0, 0]
    assert detector.credit(batch.gold, torch.full_like(batch.gold, the), batch).sum() == 0
    assert detector.credit(batch.gold, torch.full_like(batch.gold, 10**6), batch).sum() == 0


class ReadNowhere:
    """A reader of texts whose encoder only notes where it is moved."""

    def __init__(self) -> None:
        self.moved: list[torch.device] = []
        model = SimpleNamespace(device=torch.device("cpu"))
        self.reader = SimpleNamespace(encoder=SimpleNamespace(model=model, to=self.moved.append))

    def __call__(self, ids: np.ndarray, is_read: np.ndarray, segments: np.ndarray) -> np.ndarray:
        return np.ones((int(is_read.sum()), 4), np.float32)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_the_encoder_of_rows_as_text_goes_where_the_rows_are(device: str) -> None:
    reader: Any = ReadNowhere()
    ones = torch.ones(1, 3, dtype=torch.int64)
    rows = SimpleNamespace(input_ids=ones, is_whole_word=ones > 0, segments=ones)
    batch: Any = SimpleNamespace(rows=rows, positions=ones, is_masked=ones > 0, gold=ones.to(device))
    read = TextRowReader(reader, torch.zeros(9, dtype=torch.int64))
    if device == "cpu":
        assert read(batch).shape == (1, 3, 4)
    else:
        with pytest.raises(RuntimeError):  # nothing is computed on this device
            read(batch)
    assert reader.moved == ([] if device == "cpu" else [torch.device("meta")])


def test_another_tokenizer_is_read_as_text(file: str) -> None:
    """The same words are accepted as by a scorer that reads each by itself, and they are listed too."""
    tokenizer = byte_level()
    rows = encode_rows(tokenizer, [[TEXT[0]], [TEXT[2]]])
    batch: Any = tiny.make_masking(rate=0.5)(rows)
    spec = f"prototypes:{file}[top=500]@0.1"
    detector = make_detector(CorrectionConfig(detector=spec), tokenizer)
    online = OnlineDetector(make_scorer(spec, RESOURCES), tokenizer)
    _, tokens, acceptance = detector.propose(batch.gold, batch.gold, batch)
    theirs = online.credit(batch.gold.unsqueeze(-1), tokens, batch)
    is_sure = ((acceptance - theirs).abs() < 0.03) | (torch.maximum(acceptance, theirs) < 0.53)
    assert is_sure[batch.is_masked].all() and (acceptance > 0.6).sum() > 10


def listed(accepted: Accepted) -> dict[tuple[int, int, int], float]:
    keys = zip(accepted.rows.tolist(), accepted.columns.tolist(), accepted.substitutes.tolist(), strict=True)
    return dict(zip(keys, accepted.credit.tolist(), strict=True))


@pytest.mark.parametrize("kind", ["wordpiece", "byte-level"])
def test_the_annotator_lists_what_the_scorer_accepts(kind: str, file: str, corpus: Corpus, tmp_path: Path) -> None:
    """Every word of every row against every word that has a prototype; the encoder's tokenizer or another."""
    here = corpus if kind == "wordpiece" else make_corpus(tmp_path, byte_level())
    tokenizer = load_tokenizer(here.path / "tokenizer")
    spec = f"prototypes:{file}@0.4"
    annotator, scorer = make_annotator(spec, tokenizer, RESOURCES), make_scorer(spec, RESOURCES)
    index = RowIndex(here, LENGTH)
    batch = index.read(np.arange(min(6, len(index))))
    found = listed(annotator(batch))
    assert len(found) > 20
    online = OnlineDetector(scorer, tokenizer)
    numbers = np.arange(len(batch.input_ids))
    rows = read_rows(index, numbers, 0, numbers)
    batch = masked_at(rows, [list(range(LENGTH))] * len(numbers))
    candidates = {token for _, _, token in found}
    for token in candidates:
        credit = online.credit(batch.gold, torch.full_like(batch.gold, token), batch)
        for row, column in np.ndindex(credit.shape):
            expected, given = float(credit[row, column]), found.get((row, column, token), 0.0)
            if abs(max(expected, given) - 0.5) > 0.03:  # not on the edge
                assert given == pytest.approx(expected, abs=0.03)


def test_a_long_row_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not word by word, as it would be if its text were longer than the window."""
    corpus, length = make_corpus(tmp_path, wordpiece(), times=4), WINDOW + 20
    encoder = save_checkpoint("bert", wordpiece(), tmp_path / "encoder", max_position_embeddings=2 * WINDOW)
    learn_prototypes(encoder, corpus, layer=1, length=length, min_count=2).save(tmp_path / "p.safetensors")
    spec = f"prototypes:{tmp_path / 'p.safetensors'}@0.4"
    annotator = make_annotator(spec, load_tokenizer(corpus.path / "tokenizer"), RESOURCES)
    monkeypatch.setattr(TextEncoder, "vectors", lambda *_: pytest.fail("a word was read by itself"))
    batch = RowIndex(corpus, length).read(np.arange(1))
    assert batch.input_ids.shape[1] > WINDOW and not batch.is_special[0, WINDOW]
    assert len(listed(annotator(batch))) > 20


def test_a_filter_keeps_what_the_scorer_accepts(file: str, corpus: Corpus) -> None:
    """Vetoes and verification: what lists, and what looks at each pair."""
    tokenizer = load_tokenizer(corpus.path / "tokenizer")
    batch = RowIndex(corpus, LENGTH).read(np.arange(5))
    everything = listed(make_annotator(f"prototypes:{file}@0.2", tokenizer, RESOURCES)(batch))
    synonyms = listed(make_annotator("lexical", tokenizer, RESOURCES)(batch))
    both = listed(make_annotator(f"prototypes:{file}@0.2 & lexical", tokenizer, RESOURCES)(batch))
    neither = listed(make_annotator(f"prototypes:{file}@0.2 & !lexical", tokenizer, RESOURCES)(batch))
    assert set(both) | set(neither) == set(everything) and not set(both) & set(neither)
    assert all(both[key] == pytest.approx(everything[key]) for key in both)
    union = listed(make_annotator(f"lexical | prototypes:{file}@0.2", tokenizer, RESOURCES)(batch))
    assert union == pytest.approx(
        {key: max(everything.get(key, 0), synonyms.get(key, 0)) for key in everything | synonyms}
    )


@pytest.mark.parametrize("spec", ["contextual:BERT", "!lexical", "antonym", "lexical | antonym", "nonsense", "ema"])
def test_what_lists_nothing_cannot_annotate(spec: str, bert: str) -> None:
    with pytest.raises(ConfigError, match=spec.partition(":")[0]):
        make_annotator(spec.replace("BERT", bert), wordpiece(), RESOURCES)


def test_whatever_lists_substitutes_annotates(corpus: Corpus) -> None:
    """All whole words and nothing else, what has credit, a token once, never the word itself."""
    batch = RowIndex(corpus, LENGTH).read(np.arange(5))
    batch.is_whole_word[:, 3:6] = False  # pieces
    gold = int(batch.input_ids[batch.is_whole_word][0])
    detector = WrittenDetector({gold: 1.0, 7: 0.75, 8: 0.25})
    found = listed(DetectorAnnotator(detector, "written")(batch))
    words = {(row, column): batch.input_ids[row, column] for row, column in np.argwhere(batch.is_whole_word).tolist()}
    wanted = {
        (*at, token): value for at, word in words.items() for token, value in ((gold, 1), (7, 0.75)) if token != word
    }
    assert found == wanted and 0 < len(words) < (~batch.is_special).sum()


def test_an_annotated_corpus_credits_as_the_detector_does(file: str, corpus: Corpus, tmp_path: Path) -> None:
    tokenizer = load_tokenizer(corpus.path / "tokenizer")
    spec = f"prototypes:{file}[top=32]@0.3"
    write_annotations(corpus.path, make_annotator(spec, tokenizer, RESOURCES), tmp_path / "notes", length=LENGTH)
    index = RowIndex(corpus, LENGTH, annotations=Annotations.open(tmp_path / "notes", corpus))
    numbers = np.arange(6)
    batch = masked_at(read_rows(index, numbers, 0, numbers), [list(range(LENGTH))] * 6)
    annotated = make_detector(CorrectionConfig(detector=f"annotated:{tmp_path / 'notes'}"), tokenizer)
    online = make_detector(CorrectionConfig(detector=spec), tokenizer)
    num_accepted = 0
    for word in ("big", "large", "film", "movie", "main", "primary"):
        predicted = torch.full_like(batch.gold, tokenizer.convert_tokens_to_ids(word))
        is_other = predicted != batch.gold
        ours, theirs = (one.credit(batch.gold, predicted, batch) * is_other for one in (annotated, online))
        is_clear = torch.maximum(ours, theirs) > 0.53  # bfloat16 may decide what lies on the edge
        np.testing.assert_allclose(ours[is_clear], theirs[is_clear], atol=0.02)
        num_accepted += int(is_clear.sum())
    assert num_accepted > 5


@pytest.mark.parametrize("top", [4, 40])
def test_annotating_lists_what_the_search_among_all_tokens_lists(top: int) -> None:
    """Where a word was read, the accepted tokens with a prototype, best first; elsewhere nothing."""
    generator = torch.Generator().manual_seed(0)
    table = torch.nn.functional.normalize(torch.randn(40, 8, generator=generator), dim=-1)
    table[::3] = 0.0
    vectors = torch.nn.functional.normalize(torch.randn(3, 10, 8, generator=generator), dim=-1)
    vectors[:, ::4] = 0.0
    gold = torch.arange(30).view(3, 10) + 5
    batch: Any = SimpleNamespace(gold=gold, is_whole_word=torch.ones(gold.shape, dtype=torch.bool))

    def listed(annotates: bool) -> list[list[tuple[int, float]]]:
        kinds = torch.zeros(40, dtype=torch.int64)
        detector = PrototypeDetector(Given(vectors), table, kinds, 0.3, top, annotates=annotates)
        credit, tokens, acceptance = detector.propose(gold, gold, batch)
        assert credit.shape == gold.shape and tokens.shape == acceptance.shape and tokens.shape[-1] <= top
        slots = zip(tokens.flatten(0, 1).tolist(), acceptance.flatten(0, 1).tolist(), strict=True)
        return [[(t, round(c, 5)) for t, c in zip(*slot, strict=True) if c > 0] for slot in slots]

    found = listed(annotates=True)
    assert found == listed(annotates=False)
    assert sum(map(len, found)) > 30 and max(map(len, found)) == (top if top == 4 else 11)
    assert not any(found[row * 10 + slot] for row in range(3) for slot in range(0, 10, 4))
    assert not any(own == token for own, slot in zip(gold.flatten().tolist(), found, strict=True) for token, _ in slot)


def test_nothing_is_listed_where_nothing_is_accepted() -> None:
    gold = torch.zeros(2, 3, dtype=torch.int64)
    batch: Any = SimpleNamespace(gold=gold, is_whole_word=torch.ones(2, 3, dtype=torch.bool))
    reader, kinds = Given(torch.zeros(2, 3, 8)), torch.zeros(40, dtype=torch.int64)
    found = PrototypeDetector(reader, torch.ones(40, 8), kinds, annotates=True).propose(gold, gold, batch)
    assert not found.acceptance.any()


class Given:
    """A reader that returns the vectors it was made with."""

    def __init__(self, vectors: torch.Tensor) -> None:
        self._vectors = vectors

    def __call__(self, batch: MaskedRows) -> torch.Tensor:
        return self._vectors

    def digest(self) -> str:
        return ""


def test_prototypes_of_other_weights_are_refused(file: str, tmp_path: Path) -> None:
    """Of the same shape, and of the same tokenizer: only the weights tell."""
    about = Prototypes.load(file).provenance
    assert make_scorer(f"prototypes:{file}", RESOURCES).provenance["weights"] == about["weights"]
    torch.manual_seed(3)
    other = save_checkpoint("bert", wordpiece(), tmp_path / "other")
    model = AutoModelForMaskedLM.from_pretrained(other)
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(1.5)
    model.save_pretrained(other)
    with pytest.raises(ModelError, match=r"holds prototypes of another encoder than .*name theirs as \[encoder="):
        make_scorer(f"prototypes:{file}[encoder={other}]", RESOURCES)
