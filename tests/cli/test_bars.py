"""Every long verb says how far it has come, and of how much."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import WORDNET, World, finetuned, similar, works, write_text

from trueneg.runs import demo
from trueneg.terminal import progress

Arguments = list[object]


def triplets(world: World, out: Path) -> Arguments:
    lines = [{"original": f"a large film {n}", "synonym": "a big film", "antonym": "a small film"} for n in range(12)]
    (out / "t.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return ["evaluate", world.run, "--task", "triplets", "--data", out / "t.jsonl"]


DEMO: Arguments = ["--set=train.steps=1", "--set=corpus.length=16", "--set=train.precision=fp32"]
CALLS: dict[str, tuple[Callable[[World, Path], Arguments], str]] = {
    "build": (
        lambda world, out: [
            *("corpus", "build", write_text(out / "text.txt", 1500), "--tokenizer", world.tokenizer, "--out", out / "c")
        ],
        "MB",
    ),
    "annotate": (
        lambda world, out: ["corpus", "annotate", world.corpus, "--detector", "lexical", "--out", out / "notes"],
        "tokens",
    ),
    "annotate a part": (
        lambda world, out: [
            *("corpus", "annotate", world.corpus, "--detector", "lexical", "--out", out / "notes", "--max-rows", 9)
        ],
        "tokens",
    ),
    "prototypes": (
        lambda world, out: [
            *("detect", "prototypes", "--encoder", world.run, "--corpus", world.corpus, "--min-count", 1),
            *("--out", out / "p.safetensors", "--rows", 20),
        ],
        "rows",
    ),
    "evaluate": (lambda world, out: ["evaluate", world.run, "--corpus", world.corpus, "--rows", 20], "rows"),
    "triplets": (triplets, "triplets"),
    "sts": (
        lambda world, out: ["evaluate", world.run, "--task", "sts", "--data", similar(out)],
        "sentences",
    ),
    "a task": (lambda world, out: ["evaluate", finetuned(world, out)], "rows"),
    "attack": (
        lambda world, out: ["attack", finetuned(world, out), "--attack", "typos", "--max-examples", 0],
        "examples",
    ),
    "demo": (lambda world, out: ["demo", "--out", out / "demo", "--wordnet", WORDNET, *DEMO], "rows"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_log_is_told_of_how_much(name: str, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "find_encoder", lambda: world.run / "hf" / "generator")
    make, unit = CALLS[name]
    call = make(world, tmp_path)
    monkeypatch.setattr(progress, "FIRST_SECONDS", 0.0)  # which a log waits for otherwise
    told = re.findall(rf": ([\d,.]+)/([\d,.]+) {unit}  \d+:\d\d:\d\d elapsed", works(*call).err)
    done, of = (float(number.replace(",", "")) for number in told[-1])
    assert 0 < done == pytest.approx(of, rel=0.2 if name == "annotate a part" else 1e-9)
