"""Prototypes: averages of contextual vectors, and what they score and credit, each against plain code."""

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
    LENGTH,
    TEXT,
    WORDNET,
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
from trueneg.corpus.rows import RowIndex
from trueneg.corpus.store import Corpus
from trueneg.detectors import make_detector, make_scorer
from trueneg.detectors.base import credit_of
from trueneg.detectors.ema import EmaDetector
from trueneg.detectors.online import OnlineDetector
from trueneg.detectors.prototype_detector import DeviceRowReader, PrototypeDetector, TextRowReader, prototype_table
from trueneg.detectors.scorers.prototypes import Prototypes, learn_prototypes
from trueneg.detectors.specification import Resources
from trueneg.errors import ConfigError, ModelError
from trueneg.files.arrays import ArrayFile
from trueneg.models.reading import TextEncoder
from trueneg.objectives.correction import HardCorrection
from trueneg.objectives.mlm import MaskedLM
from trueneg.tokenizer import load_tokenizer, save_tokenizer

ORIGIN = {"encoder": "bert", "layer": "1"}
RESOURCES = Resources(wordnet=str(WORDNET))


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


def test_rare_words_have_none_and_a_file_keeps_them(corpus: Corpus, bert: str, prototypes_file: str) -> None:
    loaded = Prototypes.load(prototypes_file)
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


def test_the_scorer_compares_with_them(prototypes_file: str, bert: str) -> None:
    scorer = make_scorer(f"prototypes:{prototypes_file}@0.3", RESOURCES)
    loaded, encoder = Prototypes.load(prototypes_file), TextEncoder(bert, (1,))
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


def test_the_detector_agrees_with_the_scorer(prototypes_file: str, rows: tiny.Rows) -> None:
    """Same words, same sentences: on tensors, and as text."""
    tokenizer = wordpiece()
    spec = f"prototypes:{prototypes_file}[top=4]@0.05"
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
def test_each_encoder_reads_a_batch_once_a_step(detector: str, use: Any, prototypes_file: str, rows: tiny.Rows) -> None:
    """Credit for the log and substitutes for the loss come from one forward pass."""
    tokenizer = wordpiece()
    specification = detector.replace("P", f"prototypes:{prototypes_file}@0.05")
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


def test_the_detector_compiles(prototypes_file: str, rows: tiny.Rows) -> None:
    detector = make_detector(CorrectionConfig(detector=f"prototypes:{prototypes_file}@0.05"), wordpiece())
    batch = masked_at(rows, [[2, 3, 7], [2, 5, 6]])
    predicted = batch.gold.flip(1)
    compiled = torch.compile(detector.credit, backend="eager", fullgraph=True)
    assert torch.equal(compiled(batch.gold, predicted, batch), detector.credit(batch.gold, predicted, batch))


def test_the_encoder_goes_where_the_detector_goes(prototypes_file: str) -> None:
    """Before the first step: a move within a compiled one would divide it."""
    detector = make_detector(CorrectionConfig(detector=f"prototypes:{prototypes_file} & fits"), wordpiece())
    torch.nn.ModuleList([detector]).to("meta")
    (part,) = (part for part in detector.modules() if isinstance(part, PrototypeDetector))
    assert isinstance(part.vectors, DeviceRowReader)
    assert part.vectors.encoder.embeddings.device.type == "meta"


def test_an_option_that_is_no_number_is_refused_by_the_scorer_too(prototypes_file: str) -> None:
    with pytest.raises(ConfigError, match="top=abc: expected a number"):
        make_scorer(f"prototypes:{prototypes_file}[top=abc]")


def test_credit_is_float32_and_so_are_cosines_whatever_the_step_is_computed_in(
    prototypes_file: str, rows: tiny.Rows
) -> None:
    """As it was in bfloat16, of which a cosine of 0.62 has neighbours 0.004 away, verdicts turned round."""
    detector = make_detector(CorrectionConfig(detector=f"prototypes:{prototypes_file}[top=4]@0.05"), wordpiece())
    assert isinstance(detector, PrototypeDetector)
    batch = masked_at(rows, [[2, 3, 7], [2, 5, 6]])
    table = prototype_table(Prototypes.load(prototypes_file), wordpiece())
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


def test_only_whole_words_of_one_kind_are_credited(prototypes_file: str, rows: tiny.Rows) -> None:
    tokenizer = wordpiece()
    detector = make_detector(CorrectionConfig(detector=f"prototypes:{prototypes_file}@0.001"), tokenizer)
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


def test_another_tokenizer_is_read_as_text(prototypes_file: str) -> None:
    """The same words are accepted as by a scorer that reads each by itself, and they are listed too."""
    tokenizer = byte_level()
    rows = encode_rows(tokenizer, [[TEXT[0]], [TEXT[2]]])
    batch: Any = tiny.make_masking(rate=0.5)(rows)
    spec = f"prototypes:{prototypes_file}[top=500]@0.1"
    detector = make_detector(CorrectionConfig(detector=spec), tokenizer)
    online = OnlineDetector(make_scorer(spec, RESOURCES), tokenizer)
    _, tokens, acceptance = detector.propose(batch.gold, batch.gold, batch)
    theirs = online.credit(batch.gold.unsqueeze(-1), tokens, batch)
    is_sure = ((acceptance - theirs).abs() < 0.03) | (torch.maximum(acceptance, theirs) < 0.53)
    assert is_sure[batch.is_masked].all() and (acceptance > 0.6).sum() > 10


def test_prototypes_of_other_weights_are_refused(prototypes_file: str, tmp_path: Path) -> None:
    """Of the same shape, and of the same tokenizer: only the weights tell."""
    about = Prototypes.load(prototypes_file).provenance
    assert make_scorer(f"prototypes:{prototypes_file}", RESOURCES).provenance["weights"] == about["weights"]
    torch.manual_seed(3)
    other = save_checkpoint("bert", wordpiece(), tmp_path / "other")
    model = AutoModelForMaskedLM.from_pretrained(other)
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(1.5)
    model.save_pretrained(other)
    with pytest.raises(ModelError, match=r"holds prototypes of another encoder than .*name theirs as \[encoder="):
        make_scorer(f"prototypes:{prototypes_file}[encoder={other}]", RESOURCES)
