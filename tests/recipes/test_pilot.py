"""CLINE's pilot, on made-up pairs of sentences."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from ring_text import RING
from transformers import BertConfig, BertModel

from trueneg.attacks.attack_set import AttackSet, save_attack_set
from trueneg.attacks.base import AdversarialExample, Outcome
from trueneg.attacks.runner import evaluate_attack
from trueneg.errors import BusyError, ConfigError
from trueneg.files.lock import locked
from trueneg.recipes import RECIPES
from trueneg.recipes.pilot import reproduce
from trueneg.registry import load
from trueneg.tasks.text import TextExample
from trueneg.tokenizer import load_tokenizer, save_tokenizer

LABELS = ("entailment", "neutral", "contradiction")


def pair(number: int) -> tuple[str, str, str]:
    """The second sentence names its label by its word."""
    first = f"{RING[number % len(RING)]} {RING[number // len(RING) % len(RING)]}"
    return first, RING[number % 3], LABELS[number % 3]


@pytest.fixture(scope="module")
def snli(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cline")
    (folder / "snli").mkdir()
    for split, numbers in (("train", range(60)), ("dev", range(60, 90)), ("test", range(90, 120))):
        rows = [dict(zip(("sentence1", "sentence2", "gold_label"), pair(n), strict=True)) for n in numbers]
        (folder / "snli" / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    nli = folder / "counterfactually-augmented-data" / "NLI"
    originals = [pair(n) for n in range(90, 102)]
    revised = [(first, *pair(n + step)[1:]) for n, (first, *_) in enumerate(originals, 90) for step in (1, 2)]
    for name, rows in (("original", originals), ("revised_hypothesis", revised)):
        (nli / name).mkdir(parents=True)
        lines = ["\t".join(("sentence1", "sentence2", "gold_label")), *("\t".join(row) for row in rows)]
        (nli / name / "test.tsv").write_text("\n".join(lines) + "\n")
    (nli / "revised_premise").mkdir()
    turned = [(f"{first} {first}", second, label) for first, second, label in originals for _ in (1, 2)]
    lines = ["\t".join(("sentence1", "sentence2", "gold_label")), *("\t".join(row) for row in turned)]
    (nli / "revised_premise" / "test.tsv").write_text("\n".join(lines) + "\n")
    (folder / "adversaries.tsv").write_text(
        "first\toriginal\tadversarial\tlabel\n"
        + "".join(f"{first}\t{second}\t{RING[5]}\t{label}\n" for first, second, label in originals)
    )
    return folder


@pytest.fixture(scope="module")
def encoder(ring_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("encoder")
    tokenizer = load_tokenizer(ring_corpus / "tokenizer")
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    BertModel(BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **sizes)).save_pretrained(folder)
    save_tokenizer(tokenizer, folder)
    return folder


def settings(encoder: Path, snli: Path, *more: str) -> list[str]:
    given = [f"encoder={encoder}", f"data={snli}", f"adversaries={snli / 'adversaries.tsv'}", "epochs=1"]
    return [*given, *more]


def test_another_process_in_the_folder_is_named(encoder: Path, snli: Path, tmp_path: Path) -> None:
    with locked(tmp_path, "reproduce pilot"), pytest.raises(BusyError, match="reproduce pilot, since"):
        reproduce(tmp_path, scale="tiny", settings=settings(encoder, snli))
    assert not list(tmp_path.iterdir())


def test_both_ways_on_both_sets_with_seeds(encoder: Path, snli: Path, tmp_path: Path) -> None:
    assert load("recipe", "pilot", RECIPES) is reproduce
    said: list[str] = []
    given = settings(encoder, snli)
    results, table = reproduce(tmp_path, scale="tiny", arms=["freelb"], seeds=2, settings=given, say=said.append)
    assert results["arms"] == ["vanilla", "freelb"]
    assert said == [f"{arm}, seed {seed}: done" for seed in (1, 2) for arm in ("vanilla", "freelb")]
    shown = {(row["split"], row["metric"]) for row in results["rows"]}
    assert {("dev", "accuracy"), ("contrast-test", "revised"), ("attack-adversaries", "accuracy_under_attack")} <= shown
    assert all(set(row["left"]) == {1, 2} for row in results["rows"])
    config = json.loads((tmp_path / "freelb" / "snli" / "seed-1" / "config.json").read_text())
    assert config["adversarial"] == "freelb" and config["freelb"]["steps"] == 3
    assert "attack-adversaries" in table and (tmp_path / "table.md").read_text() == table
    predictions = list(tmp_path.rglob("*.predictions.jsonl"))
    times = [path.stat().st_mtime_ns for path in predictions]
    again, _ = reproduce(tmp_path, scale="tiny", arms=["freelb"], seeds=2, settings=given)
    assert again == results
    assert times == [path.stat().st_mtime_ns for path in predictions], "nothing done twice"


def test_smart_runs_in_bf16(encoder: Path, snli: Path, tmp_path: Path) -> None:
    given = settings(encoder, snli, "precision=bf16")
    results, _ = reproduce(tmp_path, scale="tiny", arms=["smart"], seeds=1, settings=given)
    assert results["arms"] == ["vanilla", "smart"]
    config = json.loads((tmp_path / "smart" / "snli" / "seed-1" / "config.json").read_text())
    assert (config["adversarial"], config["smart"]["noise"]) == ("smart", 0.01)


def test_only_adversaries_that_misled_their_model_are_asked_about_and_others_do_not_stand_for_them(
    encoder: Path, snli: Path, tmp_path: Path
) -> None:
    labels = tuple(sorted(LABELS))

    def adversary(number: int, outcome: Outcome) -> AdversarialExample[TextExample]:
        first, second, label = pair(number)
        example = TextExample(str(number), first, second, labels.index(label))
        changed = example if outcome == "skipped" else replace(example, second=RING[5])
        return AdversarialExample(example, changed, outcome, 7)

    outcomes: list[Outcome] = ["succeeded", "skipped", "succeeded", "failed", "changed"]
    made = AttackSet(
        {"name": "some", "profile": "p"}, "snli", "test", labels, [adversary(n, o) for n, o in enumerate(outcomes)]
    )
    save_attack_set(made, tmp_path / "set.jsonl")
    given = settings(encoder, snli, f"adversaries={tmp_path / 'set.jsonl'}")
    out, model = tmp_path / "out", tmp_path / "out" / "vanilla" / "snli" / "seed-1"
    reproduce(out, scale="tiny", arms=["vanilla"], seeds=1, settings=given)
    wanted = {"succeeded": 2, "changed": 1, "queries": 14}
    assert json.loads((model / "attack-some-p.json").read_text())["counts"] == wanted
    (model / "attack-some-p.json").unlink()
    evaluate_attack(model, replace(made, attack={"name": "another", "profile": "p"}))
    reproduce(out, scale="tiny", arms=["vanilla"], seeds=1, settings=given)
    assert json.loads((model / "attack-some-p.json").read_text())["counts"] == wanted


def test_what_is_refused(encoder: Path, snli: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the pilot needs --set encoder"):
        reproduce(tmp_path, settings=[])
    with pytest.raises(ConfigError, match=r"^smart_noise does nothing without the arm smart: name it"):
        reproduce(tmp_path, scale="tiny", settings=["smart_noise=0.1"])
    with pytest.raises(ConfigError, match="unknown scale 'big'"):
        reproduce(tmp_path, scale="big", settings=settings(encoder, snli))
    with pytest.raises(ConfigError, match="did you mean 'freelb'"):
        reproduce(tmp_path, arms=["freelp"], settings=settings(encoder, snli))
    with pytest.raises(ConfigError, match="the pilot has no --corpus"):
        reproduce(tmp_path, settings=settings(encoder, snli), corpus=tmp_path)
    reproduce(tmp_path, scale="tiny", arms=["vanilla"], seeds=1, settings=settings(encoder, snli))
    with pytest.raises(ConfigError, match="results of other settings \\(length"):
        reproduce(tmp_path, scale="tiny", settings=settings(encoder, snli, "length=30"))
    with pytest.raises(ConfigError, match="no such file"):
        reproduce(tmp_path, scale="tiny", settings=[*settings(encoder, snli), "adversaries=nowhere.tsv"])


def test_other_adversaries_in_the_same_file_are_refused(encoder: Path, snli: Path, tmp_path: Path) -> None:
    adversaries = tmp_path / "adversaries.tsv"
    adversaries.write_bytes((snli / "adversaries.tsv").read_bytes())
    given = settings(encoder, snli, f"adversaries={adversaries}")
    reproduce(tmp_path / "out", scale="tiny", arms=["vanilla"], seeds=1, settings=given)
    adversaries.write_text("\n".join(adversaries.read_text().splitlines()[:-1]) + "\n")
    with pytest.raises(ConfigError, match="results of other settings \\(adversaries_sha256"):
        reproduce(tmp_path / "out", scale="tiny", arms=["vanilla"], seeds=2, settings=given)
