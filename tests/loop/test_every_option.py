"""Every option of pre-training does something, under each objective, or is refused: none is taken and ignored."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import torch
from tiny_runs import WORDNET, make_config

from trueneg.config.codec import describe, encode, flatten, override
from trueneg.config.options import PretrainConfig
from trueneg.config.validation import check_options_apply, validate
from trueneg.corpus.store import Corpus
from trueneg.corruption.views.rows import ViewReader, options_of
from trueneg.errors import TruenegError
from trueneg.objectives import with_objective
from trueneg.runs.building import build, reader_of
from trueneg.tokenizer import load_tokenizer
from trueneg.training.batches import CorpusBatches, row_index
from trueneg.training.distributed import Processes
from trueneg.training.optimizer import learning_rate_share
from trueneg.training.step import Run, train_step

LEXICON = ["cline.views.senses=all", f"correction.wordnet={WORDNET}"]
NOT_SEEN = {
    "objective.options": "of a plugin's objective: tests/cli/test_plugins.py",
    "plugins": "where names come from: tests/cli/test_plugins.py",
    "preset": "a name, for the record: refused",
    "corpus.path": "where the text is",
    "corpus.mixture": "which corpora are read: tests/loop/test_mixtures.py",
    "corpus.temperature": "of a mixture: tests/loop/test_mixtures.py",
    "corpus.max_epochs": "when a run is refused: tests/loop/test_mixtures.py",
    "corpus.held_out": "what is measured, too: tests/loop/test_mixtures.py",
    "corpus.eval_rows": "held-out rows: tests/loop/test_checkpoints_of_runs.py",
    "model.start_from": "where the weights are: tests/models/test_loading.py",
    "model.generator_from": "where the generator's weights are: tests/models/test_loading.py",
    "model.part": "which weights are continued: tests/models/test_disentangled.py",
    "model.extend_vocabulary": "lets be what is refused without: tests/models/test_loading.py",
    "model.fused": "the same numbers but for rounding: tests/models/test_fused.py",
    "model.norms": "of bf16, which nothing here trains in: tests/models/test_fused.py",
    "stages": "stretches of a run: tests/loop/test_stages.py",
    "model.rope_theta": "of rotary positions: tests/loop/test_stages.py",
    "model.rope_theta_local": "of rotary positions: tests/loop/test_stages.py",
    "model.frozen_steps": "which steps train what: tests/loop/test_frozen_steps.py",
    "train.log_every": "when something is logged",
    "train.eval_every": "when held-out text is read",
    "train.save_every": "when a checkpoint is written",
    "train.save_minutes": "when a checkpoint is written",
    "train.keep": "how many checkpoints are kept",
    "train.keep_at": "which steps' models are kept: tests/loop/test_kept_models.py",
    "train.keep_every": "which steps' models are kept: tests/loop/test_kept_models.py",
    "train.ema": "what is exported: tests/loop/test_weight_average.py",
    "train.max_minutes": "when a run stops",
    "train.device": "where it runs",
    "train.compile": "the same numbers, sooner: tests/loop/test_compiled_runs.py",
    "train.cuda_graphs": "the same numbers, sooner, on a GPU: tests/loop/test_compiled_runs.py",
    "train.timeout_seconds": "when processes give each other up: tests/loop/test_many_processes.py",
    "train.tracker": "where readings go, too",
    "objective.max_logits_mb": "the same numbers, in less memory: tests/objectives/test_chunked_head.py",
    "objective.masking.hard_for": "a checkpoint: tests/objectives/test_hard_tokens.py",
    "objective.masking.hard_below": "of a checkpoint: tests/objectives/test_hard_tokens.py",
    "objective.correction.wordnet": "where WordNet is",
    "objective.correction.forms": "which words WordNet's table has: tests/lexicon/test_table.py",
    "objective.cline.views.lexicon": "another lexicon, of the package wn: tests/loop/test_cline_runs.py",
    "objective.cline.views.entities": "wants a tokenizer that tells capitals, and says so",
}
"""What does not show in the first steps of a run, and what it is about."""

OTHERS = {
    "corpus.pack": ["true"],  # "auto" is settled by a run: tests/loop/test_automatic.py
    "model.attention": ["eager"],  # "documents" is settled by a run: tests/loop/test_automatic.py
    "objective.name": ["electra", "mlm", "cline"],
    "model.architecture": ["modernbert"],
    "model.num_heads": ["1"],
    "model.hidden_size": ["16"],
    "model.embedding_size": ["16"],
    "objective.correction.detector": ["ema@0.01"],
    "objective.cline.guard": ["ema@0.01"],
    "objective.cline.views.synonym_kinds": ["synonym"],
    "objective.smoothing.source": ["uniform", "self", "average"],
    "objective.smoothing.momentum": ["0"],
    "objective.masking.mask_share": ["0.5"],
    "objective.masking.max_span": ["1"],
    "train.precision": ["bf16"],  # what "auto" is depends on the machine: tests/training/test_precision.py
    "train.batch_warmup_by": ["7"],
    "optimizer.beta1": ["0.5"],
    "optimizer.beta2": ["0.5"],
    "optimizer.muon_weight_decay": ["0.3"],
}
"""Values to try, where a rule does not find good ones."""

CASES: list[tuple[str, list[str], tuple[str, ...]]] = [
    ("mlm", [], ("",)),
    ("electra", [], ("objective.", "model.", "corpus.")),
    ("electra", ["embedding_sharing=gdes"], ("objective.updates", "model.embedding_sharing")),
    ("cline", [], ("objective.", "corpus.")),
    *(
        (
            name,
            ["correction.detector=ema@0.01", "level=token+sentence"],
            ("objective.cor", "objective.reg", "objective.judged"),
        )
        for name in ("mlm", "electra")
    ),
    ("mlm", ["smoothing.source=average"], ("objective.smoothing.",)),
    ("mlm", ["prediction=sampled", "unit=span", "schedule=wsd"], ("objective.temp", "objective.mask", "optimizer.")),
    ("mlm", ["schedule=constant"], ("optimizer.",)),
    ("mlm", ["optimizer.name=stableadamw"], ("optimizer.",)),
    ("mlm", ["optimizer.name=muon"], ("optimizer.",)),
    ("mlm", ["batch_warmup_steps=2"], ("train.batch_warmup_",)),
    ("mlm", ["schedule=cosine", "optimizer.name=electra-code", "warmup_steps=2"], ("optimizer.",)),
    ("mlm", ["correction.detector=ema@0.01", "use=marginal"], ("objective.", "corpus.")),
    ("mlm", ["level=token", "regularization.variant=soft"], ("objective.",)),
    # Draws that are mostly the best guess, or no label of the discriminator would be of a token that was judged.
    (
        "electra",
        ["correction.detector=ema@0.01", "use=soft_targets", "judged=argmax", "objective.temperature=0.05"],
        ("objective.",),
    ),
    ("electra", ["prediction=argmax", "level=sentence"], ("objective.",)),
    (
        "cline",
        ["cline.original=clean", "pooling=mean", "similarity=cosine", "in_batch_negatives=true"],
        ("objective.",),
    ),
    ("cline", ["cline.variant=released", "cline.guard=ema@0.01"], ("objective.cline.",)),
    ("cline", ["negatives=random", "weights=fixed"], ("objective.cline.",)),
    ("cline", ["contrast=false"], ("objective.cline.",)),
    ("cline", ["rtd=false"], ("objective.cline.",)),
    ("cline", ["rtd=false", "contrast=false"], ("objective.cline.",)),
]
"""Runs, as an objective with settings, and what the options begin with that are tried on each."""

LATER = {
    (("rtd=false", "contrast=false"), "objective.cline.variant=released"): "how learned weights above 1 are held back",
    (
        ("correction.detector=ema@0.01", "use=soft_targets", "judged=argmax", "objective.temperature=0.05"),
        "objective.correction.discriminator=position",
    ): "accepted guesses that are not what was drawn: tests/parity/test_equations.py",
}
"""What acts only after some steps or now and then, and how."""


OPTIONS = describe(PretrainConfig())


def others(name: str, now: Any) -> list[str]:
    """Other values of an option."""
    if name in OTHERS:
        return [value for value in OTHERS[name] if value != str(now)]
    values = OPTIONS[name].values
    if " | " in values:
        return [choice for choice in values.replace("(empty)", "").split(" | ") if choice != now]
    found = {"bool": str(not now).lower(), "int": str(now * 2 or 3), "float": str(now / 2 if now > 0 else 0.3)}
    assert values in found, f"{name}: say in OTHERS or NOT_SEEN what to try"
    return [found[values]]


def hashed(*found: Any) -> str:
    """A name for tensors, however they are nested, and for anything else that can be written."""
    digest = hashlib.sha256()
    for value in found:
        if isinstance(value, torch.Tensor):
            digest.update(f"{value.dtype}{tuple(value.shape)}".encode() + value.detach().cpu().numpy().tobytes())
        elif dataclasses.is_dataclass(value):
            digest.update(hashed(*(getattr(value, field.name) for field in dataclasses.fields(value))).encode())
        elif isinstance(value, dict):
            digest.update(hashed(*(part for item in sorted(value.items()) for part in item)).encode())
        elif isinstance(value, (list, tuple)):
            digest.update(hashed(*value).encode())
        else:
            assert value is None or isinstance(value, (str, int, float)), type(value)
            digest.update(repr(value).encode())
    return digest.hexdigest()


def seen(config: PretrainConfig) -> str:
    """What two steps of a run are like: rows, corruption, sums, weights, rates, alarms."""
    rows = row_index(config, Corpus.open(config.corpus.path))
    tokenizer = load_tokenizer(rows.corpus.path / "tokenizer")
    model, objective = build(config, tokenizer)
    read = reader_of(config, rows, tokenizer)
    order = CorpusBatches(rows, config.train, Processes(), read)
    run = Run.new(model, objective, config.optimizer, config.train, torch.device("cpu"))
    found: list[Any] = [objective.warning_for({"embedding_cosine": 0.4})]
    found += [getattr(part, "gradient_checkpointing", None) for part in model.modules()]
    found += [getattr(getattr(part, "config", None), "_attn_implementation", None) for part in model.modules()]
    if isinstance(read, ViewReader):
        # What the tiny WordNet has no words for; that each does what it says is in tests/lexicon and tests/corruption.
        views = config.objective.cline.views
        found += [read.substitution.articles is None, views.random, dataclasses.asdict(options_of(views))]
    for micro_batches in order.from_step(0, 2, pin_memory=False):
        found += [hashed(objective.corrupt(rows)) for rows in micro_batches]
        found.append(train_step(run, micro_batches))
    found += [run.meter.gather(run.processes), dict(run.module.state_dict())]
    steps = config.train.steps
    found += [learning_rate_share(config.optimizer, step, steps) for step in range(steps)]
    return hashed(*found)


def test_no_option_is_taken_and_ignored(corpus: Path, tagged: Path) -> None:
    idle, acting = [], set()
    for name, settings, prefixes in CASES:
        kind = "electra" if name == "electra" else "mlm"
        small = ["train.batch_size=8", "intermediate_size=32", "masking.rate=0.5", *LEXICON]
        base = with_objective(make_config(tagged if name == "cline" else corpus, kind, *small), name)
        config = override(base, settings)
        values, without = flatten(encode(config)), seen(config)
        assert seen(config) == without
        for option in OPTIONS:
            if option in NOT_SEEN or not option.startswith(prefixes):
                continue
            for value in others(option, values[option]):
                found = seen_with(config, option, value)
                if found == without and (tuple(settings), f"{option}={value}") not in LATER:
                    idle.append((name, *settings, f"{option}={value}"))
                elif found and found != without:
                    acting.add(option)
    assert idle == []
    assert OPTIONS.keys() - acting == NOT_SEEN.keys()


def seen_with(config: PretrainConfig, option: str, value: str) -> str:
    """The same with a setting; empty if it is refused."""
    setting = f"{option}={value}"
    try:
        changed = override(config, [setting])
        if option == "objective.name":
            changed = with_objective(config, value)
        check_options_apply(changed, [setting])
        validate(changed)
        return seen(changed)
    except TruenegError:
        return ""


def test_what_is_not_seen_exists_and_says_why() -> None:
    assert OPTIONS.keys() >= NOT_SEEN.keys() | OTHERS.keys()
    assert all(NOT_SEEN.values())
