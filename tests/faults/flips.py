"""A byte changed in any file that a command reads: the same result, or a line of a user's error; nothing else."""

from __future__ import annotations

import random
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from safetensors import SafetensorError

from faults.outcome import difference, outcome
from faults.processes import Ended, Fault, run
from faults.world import CLINE, CORRECTED, RESUMABLE, World, annotating, finetuning, pretraining


@dataclass(frozen=True)
class Kind:
    """A kind of file, and the command that reads it.

    Attributes:
        name: What it is.
        copied: What of the world is copied, and damaged there.
        files: Which of its files: a pattern.
        argv: The command, given the world, the copy, and the folder that it writes to, which may be the copy.
        is_checked: Whether a change that leaves the file well-formed must be noticed, too: it has a checksum. Files
            that people and other programs write and edit have none, and another number in them is another input.
    """

    name: str
    copied: str
    files: str
    argv: Callable[[World, Path, Path], list[object]]
    is_checked: bool = True


@dataclass
class Tally:
    """What became of a kind of file."""

    flips: int = 0
    noticed: int = 0
    harmless: int = 0
    read: int = 0
    """Taken for what it says now; only of kinds that are not checked."""
    faults: list[str] = field(default_factory=list)


WHOLE_EPOCH = ("--batch-size", 64, "--set", "train.save_every=0", "--set", "corpus.eval_rows=1")
MLM = ("--objective", "mlm", "--set", "model.architecture=bert", *WHOLE_EPOCH)


def _on_corpus(world: World, copy: Path, out: Path) -> list[object]:
    argv = pretraining("cline", *CLINE, *WHOLE_EPOCH, steps=5)(world, out)
    return [copy if word == world / "corpus" else word for word in argv]


def _on_annotations(world: World, copy: Path, out: Path) -> list[object]:
    return pretraining("mlm", *MLM, "--hard-correction", f"annotated:{copy}", steps=5)(world, out)


def _with_cache(world: World, copy: Path, out: Path) -> list[object]:
    return pretraining("corrected", *CORRECTED, *WHOLE_EPOCH, steps=2)(world, out)


def _with_replacements(world: World, copy: Path, out: Path) -> list[object]:
    return pretraining("cline", *CLINE, *WHOLE_EPOCH, steps=2)(world, out)


def _with_prototypes(world: World, copy: Path, out: Path) -> list[object]:
    argv = annotating(world, out)
    return [f"prototypes:{copy / 'p.safetensors'}@0.1" if word == "lexical" else word for word in argv]


def _from_hf(world: World, copy: Path, out: Path) -> list[object]:
    argv = pretraining("from", "--objective", "mlm", *WHOLE_EPOCH, steps=2)(world, out)
    return [copy / "hf" if word == world / "bert" else word for word in argv]


def _resumed(verb: str) -> Callable[[World, Path, Path], list[object]]:
    return lambda world, copy, out: RESUMABLE[verb].argv(world, copy)


def _reported(file: str) -> Callable[[World, Path, Path], list[object]]:
    return lambda world, copy, out: ["report", copy, "--out", out / file]


def _compared(world: World, copy: Path, out: Path) -> list[object]:
    return ["compare", world / "ft", copy, "--out", out / "table.csv"]


def _attacked_again(world: World, copy: Path, out: Path) -> list[object]:
    return ["attack", copy / "reviews", "--load", copy / "set.jsonl", "--out", out / "figures.json"]


def _built(world: World, copy: Path, out: Path) -> list[object]:
    return ["corpus", "build", copy / "text.txt", "--tokenizer", world / "tok", "--out", out]


def _evaluated(world: World, copy: Path, out: Path) -> list[object]:
    return ["evaluate", copy / "reviews" / "seed-1"]


KINDS = {
    kind.name: kind
    for kind in (
        Kind("corpus: tokens", "corpus", "*/*.tokens.bin", _on_corpus),
        Kind("corpus: offsets", "corpus", "*/*.offsets.bin", _on_corpus),
        Kind("corpus: words", "corpus", "*/*.words.bin", _on_corpus),
        Kind("corpus: tags", "corpus", "*/*.tags.bin", _on_corpus),
        Kind("corpus: forms", "corpus", "*/*.forms.bin", _on_corpus),
        Kind("corpus.json", "corpus", "corpus.json", _on_corpus),
        Kind("tags.json", "corpus", "tags.json", _on_corpus),
        Kind("corpus: tokenizer", "corpus", "tokenizer/*.json", _on_corpus),
        Kind("annotations.json", "notes", "annotations.json", _on_annotations),
        Kind("annotations: arrays", "notes", "*/*.bin", _on_annotations),
        Kind("lookup table", "tables", "tables/*", _with_cache),
        Kind("replacement table", "tables", "replacements/*", _with_replacements),
        Kind("prototypes", "protos", "p.safetensors", _with_prototypes),
        Kind("checkpoint: weights", "@pretrain mlm", "checkpoints/*/model.safetensors", _resumed("pretrain mlm")),
        Kind("checkpoint: optimizer", "@pretrain mlm", "checkpoints/*/optimizer.safetensors", _resumed("pretrain mlm")),
        Kind("checkpoint: state", "@pretrain mlm", "checkpoints/*/state.json", _resumed("pretrain mlm")),
        Kind("fine-tuning: best weights", "@finetune --select best", "*/*/best.safetensors",
             _resumed("finetune --select best")),
        Kind("fine-tuning: weights", "@finetune freelb", "*/*/checkpoints/*/model.safetensors",
             _resumed("finetune freelb")),
        Kind("run: hf/, resumed", "@pretrain --from", "hf/*", _resumed("pretrain --from")),
        Kind("run: config.json, resumed", "@pretrain mlm", "config.json", _resumed("pretrain mlm")),
        Kind("run: metrics, resumed", "@pretrain mlm", "metrics.jsonl", _resumed("pretrain mlm"), is_checked=False),
        Kind("run: metrics, reported", "bert", "metrics.jsonl", _reported("page.html"), is_checked=False),
        Kind("run: config.json, reported", "bert", "config.json", _reported("page.html"), is_checked=False),
        Kind("run: hf/, continued", "bert", "hf/*", _from_hf, is_checked=False),
        Kind("journal of a build", "@corpus build", "build.json", _resumed("corpus build")),
        Kind("shards of a journal", "@corpus build", "*/*.bin", _resumed("corpus build")),
        Kind("journal of annotations", "@corpus annotate", "annotating.json", _resumed("corpus annotate")),
        Kind("arrays of a journal", "@corpus annotate", "*/*.bin", _resumed("corpus annotate")),
        Kind("planted: runs", "@reproduce planted", "runs/*.json", _resumed("reproduce planted"), is_checked=False),
        Kind("planted: settings", "@reproduce planted", "settings.json", _resumed("reproduce planted")),
        Kind("result, compared", "attacked", "reviews/seed-1/dev.json", _compared, is_checked=False),
        Kind("result, reported", "attacked", "reviews/seed-1/dev.json", _reported("table.csv"), is_checked=False),
        Kind("answers", "attacked", "reviews/seed-1/dev.predictions.jsonl", _compared, is_checked=False),
        Kind("attack set", "attacked", "set.jsonl", _attacked_again, is_checked=False),
        Kind("fine-tuned: config.json", "ft", "reviews/seed-1/config.json", _evaluated, is_checked=False),
        Kind("fine-tuned: hf/", "ft", "reviews/seed-1/hf/*", _evaluated, is_checked=False),
        Kind("task data", "reviews", "*.csv", lambda world, copy, out: [
            copy if word == world / "reviews" else word for word in finetuning("--epochs", 1)(world, out)
        ], is_checked=False),
        Kind("text", "text", "text.txt", _built, is_checked=False),
    )
}  # fmt: skip


def flip_all(
    world: World, place: Path, each: int, seed: int, kinds: Sequence[str] = tuple(KINDS)
) -> Iterator[tuple[str, Tally]]:
    """Damage every kind of file ``each`` times, at random places."""
    for number, name in enumerate(kinds):
        kind, choose, tally = KINDS[name], random.Random(f"{seed} {name}"), Tally()
        own = place / f"kind-{number}"
        shutil.rmtree(own, ignore_errors=True)
        original = _original(world, kind, own)
        ended, whole = _read(world, kind, original, own / "read")
        assert ended.code == 0, f"{name}: {ended.last_words}"
        for _ in range(each):
            _flip(world, kind, original, own, whole, choose, tally)
        yield name, tally


def _original(world: World, kind: Kind, place: Path) -> Path:
    """What is copied: of the world, or a command's folder after a kill."""
    if not kind.copied.startswith("@"):
        return world / kind.copied
    verb, out = RESUMABLE[kind.copied[1:]], place / "killed" / "out"
    out.parent.mkdir(parents=True)
    event = 3 * run(verb.command(world, out), out, **world.environment).num_events // 4
    # Where a kill falls before the first thing worth damaging, or behind the last, it falls elsewhere.
    while not _is_half_done(out, kind.files):
        shutil.rmtree(out)
        verb.prepare(world, out)
        run(verb.command(world, out), out, Fault(event, signal.SIGKILL), **world.environment)
        event -= 1
        assert event, f"{kind.name}: no kill leaves one"
    return out


def _is_half_done(out: Path, files: str) -> bool:
    is_done = any((out / name).exists() for name in ("corpus.json", "annotations.json", "results.json"))
    steps = list(out.rglob("checkpoints/step-*"))
    return not is_done and len(steps) != 1 and any(path.stat().st_size for path in out.glob(files))


def _read(
    world: World, kind: Kind, original: Path, place: Path, damage: Callable[[Path], None] = lambda copy: None
) -> tuple[Ended, dict[str, str]]:
    """Give the command a copy, which may be damaged first: how it ends, and what it leaves if it ends well."""
    shutil.rmtree(place, ignore_errors=True)
    copy, out = place / "copy" / "out", place / "made" / "out"
    shutil.copytree(original, copy)
    damage(copy)
    # Of another verification nothing is remembered: every reading has a cache of its own.
    cache = copy if kind.copied == "tables" else place / "cache"
    out.mkdir(parents=True)
    written = copy if kind.copied.startswith("@") or kind.argv == _evaluated else out
    argv = [str(word) for word in kind.argv(world, copy, out)]
    ended = run(argv, written, **world.environment | {"TRUENEG_CACHE": str(cache)})
    if ended.code != 0:
        return ended, {}
    found = outcome(written)
    if kind.argv == _evaluated:  # of a model's folder, which is damaged, its results
        found = {name: digest for name, digest in found.items() if Path(name).name.startswith("dev.")}
    return ended, found


def _flip(
    world: World, kind: Kind, original: Path, place: Path, whole: dict[str, str], choose: random.Random, tally: Tally
) -> None:
    said: list[str] = []

    def damage(copy: Path) -> None:
        path = choose.choice([path for path in sorted(copy.glob(kind.files)) if path.stat().st_size])
        content, what = damaged(path.read_bytes(), choose)
        path.write_bytes(content)
        said.append(f"{path.relative_to(copy)}: {what}")

    tally.flips += 1
    try:
        ended, found = _read(world, kind, original, place / "read", damage)
    except (ValueError, OSError, SafetensorError) as error:
        tally.faults.append(f"ended well and left what cannot be read ({error!r:.80}): {said[0]}")
        return
    if ended.refusal:
        tally.noticed += 1
    elif ended.code != 0 or ended.is_raw:
        tally.faults.append(f"no line of a user's error: {said[0]}: {ended.last_words}")
    elif not (other := difference(whole, found)):
        tally.harmless += 1
    elif kind.is_checked:
        tally.faults.append(f"another result in silence ({other}): {said[0]}: {ended.last_words}")
    else:
        tally.read += 1


def damaged(content: bytes, choose: random.Random) -> tuple[bytes, str]:
    """Change a byte or so, as disks, networks and people do."""
    at, way = choose.randrange(len(content)), choose.random()
    if way < 0.6:
        bit = choose.randrange(8)
        return content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :], f"bit {bit} of byte {at} flipped"
    if way < 0.8:
        # Another byte, so that something did change.
        byte = bytes([(content[at] + choose.randrange(1, 256)) % 256])
        return content[:at] + byte + content[at + 1 :], f"byte {at} is {byte!r}"
    if way < 0.9:
        return content[:at], f"cut at byte {at}"
    end = min(len(content), at + 64)
    return content[:at] + bytes(end - at) + content[end:], f"bytes {at} to {end} are zero"
