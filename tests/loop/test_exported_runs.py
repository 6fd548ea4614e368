"""Exports of runs: from checkpoints alone, with what a sentence encoder had, under cards that are true."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from tiny_runs import WORDNET, MakeConfig, make_config
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel

from trueneg.cli.evaluate_encoder import evaluate_encoders
from trueneg.cli.output import Output
from trueneg.config.codec import override
from trueneg.config.options import PretrainConfig
from trueneg.errors import ConfigError, ModelError, TruenegWarning
from trueneg.models.sentence_modules import write_mean_pooling
from trueneg.objectives import with_objective
from trueneg.runs.exporting import export, note_similarity
from trueneg.runs.pretraining import pretrain

KINDS = ["mlm", "electra", "cline", "bert-electra"]


def config_for(kind: str, corpus: Path, *settings: str) -> PretrainConfig:
    config = make_config(corpus, kind.removeprefix("bert-") if kind != "cline" else "mlm", "train.steps=4")
    if kind == "cline":
        wordnet = f"correction.wordnet={WORDNET}"
        config = override(
            with_objective(config, "cline"), ["cline.views.senses=all", "cline.variant=released", wordnet]
        )
    if kind == "bert-electra":
        config = override(config, ["model.architecture=bert"])
    return override(config, ["corpus.eval_rows=0", *settings])


def weights_of(folder: Path) -> dict[str, bytes]:
    """Tensors of every file, by name."""
    return {
        f"{path.relative_to(folder)}:{name}": tensor.numpy().tobytes()
        for path in sorted(folder.rglob("*.safetensors"))
        for name, tensor in load_file(path).items()
    }


def texts_of(folder: Path) -> str:
    found = [path.read_text() for path in sorted(folder.rglob("*")) if path.suffix in (".md", ".json")]
    assert found
    return "\n".join(found)


@pytest.fixture(scope="module")
def sentence_encoder(tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As a hub's cache holds it: normalized mean vectors of at most 16 tokens, and a card."""
    folder = tmp_path_factory.mktemp("hub") / "models--org--small-encoder" / "snapshots" / "0a1b"
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertModel(BertConfig(vocab_size=len(tokenizer), **sizes)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    write_mean_pooling(folder, 16, 16)
    modules = (folder / "modules.json").read_text().rstrip().removesuffix("]").rstrip()
    norm = '{"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}'
    (folder / "modules.json").write_text(f"{modules}, {norm}]")
    (folder / "README.md").write_text("---\nlicense: mit\n---\n# small\n")
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_is_exported_from_its_checkpoint_when_all_else_is_gone(kind: str, tagged: Path, tmp_path: Path) -> None:
    corpus = shutil.copytree(tagged, tmp_path / "corpus")
    first = pretrain(config_for(kind, corpus), tmp_path / "first", quiet=True).hugging_face
    config = config_for(kind, corpus, f"model.start_from={first}")
    run = pretrain(config, tmp_path / "run", quiet=True).folder
    before = weights_of(run / "hf")
    names = {path.relative_to(run / "hf") for path in (run / "hf").rglob("*")}
    for gone in (corpus, tmp_path / "first", run / "hf"):
        shutil.rmtree(gone)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TruenegWarning)
        elsewhere = export(str(run), out=tmp_path / "out").path
        assert not (run / "hf").exists()
        assert export(str(run)).path == run / "hf"
    for folder in (elsewhere, run / "hf"):
        assert weights_of(folder) == before
        assert {path.relative_to(folder) for path in folder.rglob("*")} == names
        assert "4 of 4" in (folder / "README.md").read_text()
    assert AutoTokenizer.from_pretrained(elsewhere)("the old town").input_ids


def test_a_step_that_is_kept_is_exported(config_of: MakeConfig, tmp_path: Path) -> None:
    config = config_of("mlm", "train.steps=4", "train.save_every=2", "train.keep=2", "corpus.eval_rows=0")
    run = pretrain(config, tmp_path / "run", quiet=True).folder
    early, last = (export(str(run), step=step).path for step in (2, 4))
    assert early == run / "hf-step-2"
    assert "| steps | 2 of 4 |" in (early / "README.md").read_text()
    assert weights_of(last) == weights_of(run / "hf") != weights_of(early)
    with pytest.raises(ConfigError, match=r"--step 3: .* keeps the steps 2, 4"):
        export(str(run), step=3)


def test_a_run_without_a_checkpoint_says_how_to_go_on(config_of: MakeConfig, tmp_path: Path) -> None:
    run = pretrain(config_of("mlm", "train.steps=2"), tmp_path / "run", quiet=True).folder
    shutil.rmtree(run / "hf")
    shutil.rmtree(run / "checkpoints")
    (run / "checkpoints").mkdir()
    with pytest.raises(ModelError, match="--resume"):
        export(str(run))


def test_a_continued_sentence_encoder_keeps_what_it_had_and_is_told_of(
    config_of: MakeConfig, sentence_encoder: Path, tmp_path: Path
) -> None:
    source = shutil.copytree(sentence_encoder, tmp_path / sentence_encoder.relative_to(sentence_encoder.parents[2]))
    config = config_of("mlm", f"model.start_from={source}", "train.steps=2", "corpus.eval_rows=0")
    with pytest.warns(TruenegWarning) as said_then:
        run = pretrain(config, tmp_path / "run", quiet=True).folder
    (told,) = [text for text in (str(warning.message) for warning in said_then) if "is a sentence encoder" in text]
    assert "sentence-encoders.md" in told and "--task sts" in told
    shutil.rmtree(source)
    shutil.rmtree(run / "hf")
    with pytest.warns(TruenegWarning, match="continued a sentence encoder .* not measured"):
        out = export(str(run), "sentence-transformers").path
    encoder = SentenceTransformer(str(out), device="cpu")
    assert encoder.max_seq_length == 16
    assert np.allclose(np.linalg.norm(encoder.encode(["the old town", "a film"]), axis=1), 1, atol=1e-5)
    for folder in (out, export(str(run)).path):
        card = (folder / "README.md").read_text()
        assert "base_model: org/small-encoder\n" in card and "license: mit\n" in card
        assert "is a sentence encoder" in card and "not measured" in card
        assert str(tmp_path) not in texts_of(folder)
    AutoModel.from_pretrained(run / "hf")
    note_similarity(str(run), "dev", 1500, {"cls": 0.5, "mean": 0.6649}, {"cls": 0.7, "mean": 0.867})
    said = "STS-B dev, 1,500 pairs, Spearman x 100 of mean vectors: 86.7 before, 66.5 at step 2."
    assert said in (run / "hf" / "README.md").read_text()
    with pytest.warns(TruenegWarning, match="its card says"):
        again = export(str(run), "sentence-transformers", out, overwrite=True).path
    assert said in (again / "README.md").read_text()


def test_sts_of_a_continued_sentence_encoder_is_measured_before_and_after(
    config_of: MakeConfig, sentence_encoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = config_of("mlm", f"model.start_from={sentence_encoder}", "train.steps=2", "corpus.eval_rows=0")
    with pytest.warns(TruenegWarning):
        run = pretrain(config, tmp_path / "run", quiet=True).folder
    pairs = [("the old town", "the old city", 4.0), ("a big film", "a movie", 3.0), ("we see", "the road", 1.0)]
    heading = [
        "index",
        "genre",
        "filename",
        "year",
        "old_index",
        "source1",
        "source2",
        "sentence1",
        "sentence2",
        "score",
    ]
    rows = [[str(n), *["x"] * 6, left, right, str(score)] for n, (left, right, score) in enumerate(pairs)]
    (tmp_path / "STS-B").mkdir()
    (tmp_path / "STS-B/dev.tsv").write_text("".join("\t".join(row) + "\n" for row in [heading, *rows]))
    out = tmp_path / "sts.json"
    evaluate_encoders([str(run)], "sts", str(tmp_path), [], "", (), 0, out, Output(as_json=True))
    assert f"'{sentence_encoder}' is measured, too" in capsys.readouterr().err
    assert out.read_text().count('"spearman"') == 4
    card = (run / "hf" / "README.md").read_text()
    assert "STS-B dev, 3 pairs" in card and " before, " in card and "not measured" not in card


def test_a_card_says_what_was_done(config_of: MakeConfig, tmp_path: Path) -> None:
    base = pretrain(config_of("electra", "train.steps=2", "corpus.eval_rows=0"), tmp_path / "base", quiet=True)
    text = (base.hugging_face / "README.md").read_text()
    assert "A baseline" in text and "true negatives with" not in text
    assert "base_model" not in text and "license:" not in text and "No licence is stated" in text
    settings = ("train.steps=2", "corpus.eval_rows=0", f"model.start_from={base.hugging_face}")
    corrected = pretrain(config_of("corrected", *settings), tmp_path / "corrected", quiet=True)
    text = texts_of(corrected.hugging_face)
    assert "`lexical`" in text and "baseline" not in text
    assert "| continued from | base/hf |" in text and "licence of `base/hf` is not known" in text
    assert str(tmp_path) not in text
