"""What the documentation promises, one command after another, over one small world."""

from __future__ import annotations

import json
import signal
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import WORDNET, World, contents, pretrain_options, trueneg, works
from safetensors.torch import load_file
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer, BertConfig, BertForMaskedLM

from trueneg.lexicon.wordnet_location import FILES
from trueneg.runs import demo
from trueneg.training import loop


def test_tokenizer_and_corpus(world: World) -> None:
    assert world.said["tokenizer"].data["vocab_size"] == len(AutoTokenizer.from_pretrained(world.tokenizer)) <= 120
    splits = world.said["corpus"].data["info"]["splits"]
    assert sum(split["num_documents"] for split in splits.values()) == 240
    told = works("corpus", "info", world.corpus, "--length", 24, "--verify").out
    assert f"{splits['train']['num_tokens']:,} tokens" in told
    assert "every byte is as it was written" in told


def test_a_corrected_run_is_a_checkpoint_that_transformers_loads(world: World) -> None:
    assert world.said["run"].data["reason"] == "finished"
    assert world.said["run"].data["step"] == 6
    AutoModel.from_pretrained(world.run / "hf")
    correction = json.loads((world.run / "config.json").read_text())["objective"]["correction"]
    assert correction["detector"] == "lexical"


def test_held_out_loss_is_said_when_it_is_measured_and_at_the_end(world: World, tmp_path: Path) -> None:
    said = works(*pretrain_options(world, tmp_path / "run"), "--set", "eval_every=3")
    lines = [line for line in said.err.splitlines() if "held out" in line]
    assert [line.split()[1] for line in lines] == ["3/6", "6/6"]
    records = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    losses = [record["loss"] for record in records if record["kind"] == "eval"]
    assert all(f"loss {loss:.4g}" in line for loss, line in zip(losses, lines, strict=True))
    assert f"held-out loss {losses[-1]:.4f}" in said.out


def test_a_run_done_again_from_its_configuration_has_identical_weights(world: World, tmp_path: Path) -> None:
    works("pretrain", "--config", world.run, "--out", tmp_path / "again", "-q")
    ours, theirs = (contents(run / "hf") for run in (world.run, tmp_path / "again"))
    assert ours["model.safetensors"] == theirs["model.safetensors"]
    assert ours["generator/model.safetensors"] == theirs["generator/model.safetensors"]


def test_a_run_continued_as_a_masked_model_then_evaluated_and_reported(world: World, tmp_path: Path) -> None:
    base, continued = tmp_path / "base", tmp_path / "continued"
    works(*pretrain_options(world, base), "-q")
    options = ("--objective", "mlm", "--corpus", world.corpus, "--steps", 3, "--length", 24, "--batch-size", 4)
    works("pretrain", "--from", base, *options, "--out", continued, "-q")
    AutoModelForMaskedLM.from_pretrained(continued / "hf")
    file = continued / "false-negatives.json"
    found = works("evaluate", continued, "--corpus", world.corpus, "--rows", 8, "--out", file, "--json").data
    assert found == json.loads(file.read_text())
    assert found["num_rows"] == 8
    assert found["config"]["corpus"]["length"] == 24  # the run's own
    told = works("evaluate", continued, "--corpus", world.corpus, "--rows", 8).out
    assert f"masked tokens mispredicted: {found['readings']['mispredicted']:.2%}" in told
    page = tmp_path / "report.html"
    works("report", base, continued, "--out", page)
    assert all(name in page.read_text() for name in ("base", "continued", "<svg"))


def test_a_bert_from_elsewhere_continued_with_set_correction(world: World, tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(world.tokenizer)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertForMaskedLM(BertConfig(vocab_size=len(tokenizer), **sizes)).save_pretrained(tmp_path / "bert")
    tokenizer.save_pretrained(tmp_path / "bert")
    said = works(
        *("pretrain", "--from", tmp_path / "bert", "--corpus", world.corpus, "--out", tmp_path / "run"),
        *("--hard-correction", "lexical", "--set", "correction.use=marginal", "--steps", 3, "--length", 24, "--pack"),
    )
    assert "training: mlm" in said.err
    assert "finished at step 3 of 3" in said.out
    assert json.loads((tmp_path / "run" / "hf" / "config.json").read_text())["model_type"] == "bert"
    before = (tmp_path / "bert" / "model.safetensors").read_bytes()
    assert (tmp_path / "run" / "hf" / "model.safetensors").read_bytes() != before


@pytest.mark.parametrize("format", ["hf", "sentence-transformers", "onnx"])
def test_exports(world: World, tmp_path: Path, format: str) -> None:
    written = Path(works("export", world.run, "--format", format, "--out", tmp_path / "out", "--json").data["out"])
    assert written.exists()
    assert (tmp_path / "out" / "config.json").is_file()


def test_steps_of_a_run_are_merged(world: World, tmp_path: Path) -> None:
    last = json.loads((world.run / "config.json").read_text())["train"]["steps"]
    done = works("merge", f"{world.run}@{last}", world.run, "--method", "ema", "--out", tmp_path / "out", "--json").data
    assert (done["method"], done["num_models"]) == ("ema", 2)
    merged, own = (load_file(folder / "model.safetensors") for folder in (tmp_path / "out", world.run / "hf"))
    assert all(torch.allclose(tensor, own[name]) for name, tensor in merged.items())


def test_the_exported_folder_is_where_it_is_when_none_is_named(world: World) -> None:
    assert works("export", world.run).out == f"{world.run / 'hf'}\n"


def test_lexicon(world: World, tmp_path: Path) -> None:
    options = ("--tokenizer", world.tokenizer, "--forms", "lemma")
    table = works("lexicon", "build", *options, "--out", tmp_path / "table.safetensors", "--json").data
    assert len(load_file(tmp_path / "table.safetensors")["keys"]) == table["num_pairs"] > 0
    shown = works("lexicon", "show", "large", "metropolitan", *options, "--json").data["substitutes"]
    assert "big" in shown["large"]
    assert shown["metropolitan"] is None
    assert "never corrected" in works("lexicon", "show", "metropolitan", *options).out


def test_wordnet_out_of_an_archive(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "wordnet.zip", "w") as archive:
        for name in FILES:
            archive.write(WORDNET / name, f"wordnet/{name}")
    place = works("lexicon", "fetch", "--archive", tmp_path / "wordnet.zip", "--out", tmp_path / "wn", "--json")
    assert place.data == {"wordnet": str(tmp_path / "wn")}
    assert set(FILES) <= set(contents(tmp_path / "wn"))


def test_bench(world: World) -> None:
    said = works("bench", "overhead", "--preset", "electra-tiny", "--corpus", world.corpus, "--rounds", 1, "--json")
    arms = {arm["name"]: arm for arm in said.data["arms"]}
    assert arms["baseline"]["ratio"] == 1
    assert "hard correction" in arms


def test_bench_names_what_holds_a_step_back(world: World) -> None:
    command = ("bench", "--preset", "electra-tiny", "--corpus", world.corpus, "--rounds", 1)
    data = works(*command, "--json").data
    parts = data["measured"]
    assert data["what"] == "step" and data["arms"][0]["name"] == "as it is"
    assert min(parts["step"], parts["one_row"], parts["read"], *parts["matrix_rate"].values()) > 0
    assert 0 < data["mfu"] == data["achieved_flops"] / parts["matrix_rate"]["fp32"] < 1
    assert 0 < parts["fill"] < parts["packed_fill"] <= 1 and set(parts["tried"]) == {"--pack", "--precision bf16"}
    places = [found["place"] for found in data["bottlenecks"]]
    gains = [found["gain"] for found in data["bottlenecks"][:-1]]
    assert places[-1] in {"arithmetic", "traffic"} and gains == sorted(gains, reverse=True)
    said = works(*command).out
    assert "bottlenecks, the largest first\n  1. " in said and "one row a micro-batch" in said


def test_words_added_to_a_vocabulary_and_to_a_checkpoint(world: World, tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("metropolitan\nlarge\nnear\n")
    said = works("tokenizer", "extend", world.tokenizer, "--words", words, "--out", tmp_path / "tok", "--json")
    assert said.data["num_added"] == 1
    corpus = tmp_path / "corpus"
    works("corpus", "build", world.text, "--tokenizer", tmp_path / "tok", "--out", corpus, "-q")
    works(
        *("pretrain", "--from", world.run, "--corpus", corpus, "--extend-vocabulary", "--steps", 1, "--length", 24),
        *("--batch-size", 4, "--out", tmp_path / "run"),
    )
    rows = [
        AutoModel.from_pretrained(path).get_input_embeddings().num_embeddings
        for path in (world.run / "hf", tmp_path / "run" / "hf")
    ]
    assert rows[1] == rows[0] + 1


def test_demo(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "find_encoder", lambda: world.run / "hf" / "generator")
    smaller = [f"--set={setting}" for setting in ("corpus.length=16", "train.steps=2", "train.batch_size=4")]
    precision = "--set=train.precision=fp32"
    said = works("demo", "--out", tmp_path / "demo", "--wordnet", WORDNET, *smaller, precision)
    assert "loss of the gold token" in said.out
    page = (tmp_path / "demo" / "report.html").read_text()
    # Whatever WordNet accepts, nobody says that it is right, nor lists what is not there.
    assert "Right answers" not in page and "about 18 in 100 were right" in page
    assert ("WordNet accepts none of them" in said.out) != ("about 18 in 100 were right" in said.out)
    assert "the ten" not in said.out
    AutoModel.from_pretrained(tmp_path / "demo" / "run" / "hf")
    again = works("demo", "--out", tmp_path / "demo", "--wordnet", WORDNET, *smaller, precision, "--json")
    assert Path(again.data["checkpoint"]) == tmp_path / "demo" / "run" / "hf"


def test_a_demo_that_is_told_to_stop_saves_and_goes_on(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "find_encoder", lambda: world.run / "hf" / "generator")
    smaller = [f"--set={setting}" for setting in ("corpus.length=16", "train.steps=3", "train.batch_size=4")]
    command = ("demo", "--out", tmp_path, "--wordnet", WORDNET, *smaller, "--set=train.precision=fp32")
    original = loop.train_step

    def step(*arguments: Any) -> Any:
        signal.raise_signal(signal.SIGTERM)
        return original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "train_step", step)
        said = trueneg(*command)
    assert (said.code, said.out) == (130, "")
    assert not (tmp_path / "report.html").exists()
    assert "loss of the gold token" in works(*command).out


@pytest.mark.parametrize("kind", ["presets", "objectives", "detectors", "options"])
def test_lists(kind: str) -> None:
    entries = works("list", kind, "--json").data[kind]
    assert all(entries.values())
    told = works("list", kind).out
    assert all(name in told for name in entries)


def test_doctor_says_beforehand_what_a_run_takes(tmp_path: Path) -> None:
    data = works("doctor", tmp_path, "--preset", "electra-tiny", "--batch-size", 4, "--on", "H100", "--json").data
    memory, time = data["findings"][-2:]
    assert (memory["name"], memory["level"], time["name"]) == ("memory", "ok", "time")
    assert "GiB on H100, micro-batches of 4" in memory["what"] and "989 TFLOP/s" in time["what"]
    estimate = data["estimate"]
    parts = (estimate[name] for name in ("weights", "gradients", "optimizer", "activations"))
    assert estimate["memory"] == sum(parts)


def test_doctor(tmp_path: Path) -> None:
    assert "wordnet" in works("doctor", tmp_path).out
