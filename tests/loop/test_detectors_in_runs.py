"""Runs with every kind of detector: they correct, they resume, they compile."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch
from tiny_runs import WORDNET, MakeConfig, assert_same_readings, check_resumes, final_tensors, readings

import tiny
from trueneg.runs.pretraining import pretrain
from trueneg.tokenizer import load_tokenizer

KINDS = {
    "lexical": "lexical",
    "neighbours": "neighbours:ENCODER[top=3]",
    "contextual": "contextual:ENCODER@0.01",
    "teacher": "teacher:ENCODER@0.01",
    "ema": "ema[momentum=0.5]@0.01",
    "first-sense": "first-sense",
    "either": "lexical | contextual:ENCODER@0.01",
    "both": "lexical & contextual:ENCODER@0.01",
    "vetoed": "contextual:ENCODER@0.01 & !lexical",
}


@pytest.fixture(scope="module")
def encoder(tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder, tokenizer = tmp_path_factory.mktemp("encoder"), load_tokenizer(tokenizer_folder)
    tiny.make_hf_masked_lm("bert", vocab_size=len(tokenizer), initializer_range=0.3).save_pretrained(folder)
    tokenizer.save_pretrained(str(folder))
    return str(folder)


def detector(kind: str, encoder: str) -> str:
    return f"objective.correction.detector={KINDS[kind].replace('ENCODER', encoder)}"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("objective", ["mlm", "corrected"])
def test_runs_correct_and_say_so(
    kind: str, objective: str, encoder: str, config_of: MakeConfig, tmp_path: Path
) -> None:
    settings = ("train.steps=3", "train.log_every=1", "train.eval_every=0", "train.batch_size=48")
    sampled = ("objective.prediction=sampled", f"objective.correction.wordnet={WORDNET}")
    config = config_of(objective, *settings, *sampled, detector(kind, encoder))
    assert pretrain(config, tmp_path / "run", quiet=True).reason == "finished"
    found = [record["corrected"] for record in readings(tmp_path / "run") if record["kind"] == "train"]
    assert len(found) == 3 and all(0 <= share < 1 for share in found)
    if kind not in ("ema", "both"):  # the average has not learned to see gold yet; few pairs please two at once
        assert any(share > 0 for share in found)


@pytest.mark.parametrize("objective", ["mlm", "corrected"])
def test_a_run_with_a_moving_average_resumes_bit_for_bit(objective: str, config_of: MakeConfig, tmp_path: Path) -> None:
    settings = ("objective.correction.detector=ema[momentum=0.9]@0.01", "train.steps=9", "train.save_every=4")
    config = config_of(objective, *settings, "model.dropout=0.1", "objective.correction.use=marginal")
    tensors = final_tensors(check_resumes(config, tmp_path, 6))
    average = {name.split("teacher.")[1]: value for name, value in tensors.items() if ".teacher." in name}
    learned = "model." if objective == "mlm" else "model.generator."
    pairs = [(value, tensors[learned + name]) for name, value in average.items() if learned + name in tensors]
    assert len(pairs) > 10
    assert any(not torch.equal(ours, theirs) for ours, theirs in pairs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "backend"),
    [("lexical", "inductor"), ("ema", "eager"), ("either", "eager")],
    ids=["device", "ema", "either"],
)
def test_compiled_runs_have_the_readings_of_plain_ones(
    kind: str, backend: str, encoder: str, config_of: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another draw would change what the discriminator sees. The backend ``eager`` only traces, in seconds."""
    settings = ("model.dropout=0", "train.steps=3", "train.log_every=1", "train.eval_every=0", "corpus.eval_rows=0")
    settings += ("model.num_layers=1",)  # compilers take as long as there are layers
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    for compile_it in ("false", "true"):
        config = config_of("corrected", *settings, detector(kind, encoder), f"train.compile={compile_it}")
        pretrain(config, tmp_path / compile_it, quiet=True)
    assert_same_readings(tmp_path / "true", tmp_path / "false")
