"""Stages: one after the other in one run, the optimizer going on, exact at every step and border."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from tiny_runs import (
    ENTRIES,
    MakeConfig,
    assert_identical,
    assert_same_readings,
    before_step,
    check_resumes,
    cut_run,
    documents,
    ending,
    final_tensors,
    last_checkpoint,
    readings,
    start,
    terminate,
    together,
    wait_for,
)
from tokenizers import Tokenizer, models, pre_tokenizers

from tiny_tokenizers import SPECIAL, numbered, wrapped
from trueneg.config.batch_sizes import check_rows, rows_of_step
from trueneg.config.codec import override
from trueneg.config.options import PretrainConfig, StageConfig
from trueneg.config.presets import preset
from trueneg.config.stages import stages_of, with_stages
from trueneg.corpus.build import build_corpus
from trueneg.corpus.rows import RowIndex
from trueneg.corpus.store import Corpus
from trueneg.errors import CheckpointError, ConfigError, CorpusError, TruenegError
from trueneg.runs.bench import _of_one_row, of_stage
from trueneg.runs.configuring import configure
from trueneg.runs.exporting import export
from trueneg.runs.pretraining import pretrain, rehearse
from trueneg.training.batches import CorpusBatches
from trueneg.training.distributed import Processes

RISING = ("train.batch_size=12", "train.batch_warmup_steps=4", "train.batch_warmup_from=4")


@pytest.fixture(scope="session")
def other(tokenizer_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another corpus of the same tokenizer."""
    folder = tmp_path_factory.mktemp("other")
    (folder / "text.txt").write_text("\n\n".join(documents(60, seed=1)))
    build_corpus([str(folder / "text.txt")], tokenizer_folder, folder / "corpus", valid=0.15)
    return folder / "corpus"


def in_three(config: PretrainConfig, other: Path, *more: str) -> PretrainConfig:
    """Rows that rise, with many masks; another corpus in longer rows; a decay."""
    return with_stages(
        config,
        [
            StageConfig("pretrain", 9, ("masking.rate=0.3", "schedule=constant", *RISING)),
            StageConfig("longer", 6, (f"corpus.path={other}", "corpus.length=40", "learning_rate=1e-3", *more)),
            StageConfig("decay", 7, ("schedule=1-sqrt", "masking.rate=0.1", "accumulation=2"), keep=True),
        ],
    )


@pytest.mark.parametrize("kind", ["mlm", "electra", "corrected"])
def test_a_run_in_stages_cut_anywhere_ends_as_the_uninterrupted_one(
    kind: str, config_of: MakeConfig, other: Path, tmp_path: Path
) -> None:
    config = in_three(config_of(kind, "model.dropout=0.1", "train.save_every=4", "train.eval_every=5"), other)
    # Within a stage, at both borders, and before the first checkpoint.
    cut = check_resumes(config, tmp_path, 2, 9, 11, 15, 21)
    assert [record["stage"] for record in readings(cut) if record["kind"] == "eval"] == [
        *["pretrain"] * 2,
        *["longer"] * 2,
        *["decay"] * 2,
    ]
    assert [(record["step"], record["kind"]) for record in readings(cut) if record["kind"] == "kept"] == [(22, "kept")]
    assert (cut / "kept" / "step-22" / "config.json").is_file() or list((cut / "kept").iterdir())
    assert json.loads((last_checkpoint(cut) / "state.json").read_text())["stage"] == "decay"


@pytest.mark.slow
def test_a_process_killed_at_any_moment_of_any_stage_ends_as_the_uninterrupted_one(
    config_of: MakeConfig, other: Path, tmp_path: Path
) -> None:
    config = in_three(config_of("electra", "train.save_every=2"), other)
    longer = [replace(stage, steps=stage.steps * 4) for stage in config.stages]
    config, out, choose = with_stages(config, longer), tmp_path / "killed", random.Random(2)
    pretrain(config, tmp_path / "whole", quiet=True)
    for _ in range(4):  # within a save or an export, and as a stage begins
        process = start(config, out, die_at_file_event=choose.randint(60, 260))
        process.join(60)
        assert process.exitcode == -signal.SIGKILL
    border = out / "checkpoints" / "step-000000036"
    process = start(config, out)
    wait_for(lambda: border.exists() or last_step(out) > 36, process)
    process.kill()
    process.join(60)
    assert ending(start(config, out), out) == {"reason": "finished", "step": 88}
    assert_identical(tmp_path / "whole", out)


def last_step(run: Path) -> int:
    return max((int(path.name[5:]) for path in (run / "checkpoints").glob("step-*")), default=0)


def test_the_same_settings_in_two_stages_are_a_run_without_stages(config_of: MakeConfig, tmp_path: Path) -> None:
    """An independent reference: the weights of a run that knows no border."""
    config = config_of("corrected", "schedule=constant", "warmup_steps=4", "train.save_every=5", "model.dropout=0.1")
    pretrain(config, tmp_path / "plain", quiet=True)
    pretrain(with_stages(config, [StageConfig("a", 11), StageConfig("b", 13)]), tmp_path / "parted", quiet=True)
    ours, theirs = final_tensors(tmp_path / "parted"), final_tensors(tmp_path / "plain")
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []


def test_a_learning_rate_is_the_stages_own(config_of: MakeConfig, tmp_path: Path) -> None:
    """The schedules again, in numpy, and the optimizer's step count goes on."""
    config = with_stages(
        config_of("mlm", "train.log_every=1", "train.eval_every=0"),
        [
            StageConfig("a", 10, ("schedule=constant", "warmup_steps=4", "learning_rate=1e-3")),
            StageConfig("b", 8, ("schedule=wsd", "decay_ratio=0.5", "decay_shape=1-sqrt", "learning_rate=4e-4")),
            StageConfig("c", 6, ("schedule=1-sqrt", "min_lr_ratio=0.1", "learning_rate=2e-4")),
        ],
    )
    pretrain(config, tmp_path / "run", quiet=True)
    of_b = np.concatenate([np.ones(4), 1 - np.sqrt(np.arange(4) / 4)])
    of_c = 0.1 + 0.9 * (1 - np.sqrt(np.arange(6) / 6))
    wanted = np.concatenate([1e-3 * np.minimum(np.arange(1, 11) / 4, 1), 4e-4 * of_b, 2e-4 * of_c])
    found = [record["learning_rate"] for record in readings(tmp_path / "run") if record["kind"] == "train"]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    states = load_file(last_checkpoint(tmp_path / "run") / "optimizer.safetensors")
    assert {float(value) for name, value in states.items() if name.endswith("/step")} == {24.0}


class Recorder:
    """A reader of rows that notes what it was asked for."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.keys: list[int] = []

    def __call__(self, index: RowIndex, rows: NDArray[Any], seed: int, keys: NDArray[Any]) -> None:
        self.rows += rows.tolist()
        self.keys += keys.tolist()


def test_rows_of_a_stage_go_on_behind_those_read_before(config_of: MakeConfig, other: Path) -> None:
    """Of the same corpus the permutation goes on; another begins at its own start; no example number comes twice."""
    config = in_three(config_of("mlm"), other)
    found: list[Recorder] = []
    for stage in stages_of(config):
        corpus, reader = Corpus.open(stage.config.corpus.path), Recorder()
        rows = RowIndex(corpus, stage.config.corpus.length)
        for rank in range(2):
            batches = CorpusBatches(rows, stage.config.train, Processes(rank, 2), reader, stage)  # type: ignore[arg-type]
            for step in stage.steps:
                batches.micro_batches(step)
        found.append(reader)
    plain = Recorder()
    rows = RowIndex(Corpus.open(config.corpus.path), config.corpus.length)
    one = CorpusBatches(rows, replace(config.train, batch_size=1), Processes(), plain)  # type: ignore[arg-type]
    sizes = [4, 4, 8, 8, *[12] * 5]
    for position in range(sum(sizes) + 7 * 8):
        one.micro_batches(position)
    assert sorted(found[0].rows + found[2].rows) == sorted(plain.rows)
    assert sorted(key for reader in found for key in reader.keys) == list(range(sum(sizes) + 6 * 8 + 7 * 8))
    assert sorted(found[0].keys) == list(range(sum(sizes)))


@pytest.mark.slow
def test_two_processes_train_stages_as_one_does(config_of: MakeConfig, other: Path, tmp_path: Path) -> None:
    config = in_three(config_of("mlm", "train.save_every=4"), other)
    pretrain(config, tmp_path / "one", quiet=True)
    told = together(config, tmp_path / "two", 2)
    assert told == [{"reason": "finished", "step": 22}] * 2
    assert_same_readings(tmp_path / "two", tmp_path / "one")


def test_a_signal_at_a_border_stops_there(config_of: MakeConfig, other: Path, tmp_path: Path) -> None:
    config = in_three(config_of("mlm"), other)
    pretrain(config, tmp_path / "whole", quiet=True)
    with pytest.MonkeyPatch.context() as patch:
        before_step(patch, 8, terminate)
        stopped = pretrain(config, tmp_path / "stopped", quiet=True)
    assert (stopped.reason, stopped.step) == ("interrupted", 9)
    pretrain(config, tmp_path / "stopped", resume=True, quiet=True)
    assert_identical(tmp_path / "whole", tmp_path / "stopped")


def test_a_detector_may_come_with_a_stage(config_of: MakeConfig, tmp_path: Path) -> None:
    """What it learns begins with the stage, from the weights as they then are; and goes when a stage has none."""
    config = with_stages(
        config_of("mlm"),
        [
            StageConfig("plain", 5),
            StageConfig("corrected", 5, ("correction.detector=ema@0.01",)),
            StageConfig("plain-again", 5),
        ],
    )
    check_resumes(replace(config, train=replace(config.train, save_every=2)), tmp_path, 5, 8, 10)


def test_the_base_of_rotary_positions_changes_with_a_stage(config_of: MakeConfig, tmp_path: Path) -> None:
    settings = ("model.architecture=modernbert", "model.max_positions=64", "rope_theta=10000", "rope_theta_local=500")
    config = with_stages(
        config_of("mlm", *settings),
        [StageConfig("short", 4), StageConfig("long", 4, ("model.rope_theta=160000", "corpus.length=60"))],
    )
    run = check_resumes(replace(config, train=replace(config.train, save_every=3)), tmp_path, 4, 7)
    saved = json.loads((run / "hf" / "config.json").read_text())["rope_parameters"]
    assert saved["full_attention"]["rope_theta"] == 160000
    assert saved["sliding_attention"]["rope_theta"] == 500
    with pytest.raises(ConfigError, match=r"stage 'x': model.rope_theta=9: 'bert' has no rotary positions"):
        pretrain(
            with_stages(config_of("mlm"), [StageConfig("w", 1), StageConfig("x", 1, ("model.rope_theta=9",))]),
            tmp_path / "bert",
            quiet=True,
        )


def test_later_stages_may_change_before_a_resume(config_of: MakeConfig, other: Path, tmp_path: Path) -> None:
    config, run = in_three(config_of("mlm", "train.save_every=3"), other), tmp_path / "run"
    cut_run(config, run, 13)  # in the second stage
    first, second, third = config.stages

    def resumed(*stages: StageConfig) -> Any:
        return pretrain(with_stages(config, stages), run, resume=True, quiet=True)

    for number, changed in enumerate((replace(first, settings=first.settings[1:]), replace(second, steps=7))):
        stages = [first, second, third]
        stages[number] = changed
        with pytest.raises(CheckpointError, match=rf"in stage '{changed.name}', which has begun \(.*resume without"):
            resumed(*stages)
    added = StageConfig("more", 3, ("learning_rate=1e-5",))
    done = resumed(first, second, replace(third, steps=4, settings=("schedule=linear",)), added)
    assert (done.reason, done.step) == ("finished", 22)
    assert (
        resumed(first, second, replace(third, steps=4, settings=("schedule=linear",)), added, added_again()).step == 24
    )


def test_a_stage_that_has_begun_cannot_be_taken_away(config_of: MakeConfig, tmp_path: Path) -> None:
    stages = [StageConfig("a", 4), StageConfig("b", 6), StageConfig("c", 4)]
    config = config_of("mlm", "train.save_every=3")
    cut_run(with_stages(config, stages), tmp_path / "run", 10)
    with pytest.raises(CheckpointError, match="has begun stage 'b', which is not among the stages now"):
        pretrain(with_stages(config, stages[:1]), tmp_path / "run", resume=True, quiet=True)


def test_packing_is_the_stages_own(config_of: MakeConfig, tmp_path: Path) -> None:
    """What a stage does not set comes from the run, and ``auto`` packs nothing on a CPU."""
    stages = [StageConfig("packed", 4, ("corpus.pack=true",)), StageConfig("plain", 4)]
    config = with_stages(config_of("mlm", "corpus.pack=auto", "train.save_every=3"), stages)
    check_resumes(config, tmp_path / "cut", 3, 6)
    pretrain(config, tmp_path / "run", quiet=True)
    apart = with_stages(override(config, ["corpus.pack=false"]), stages)
    pretrain(apart, tmp_path / "apart", quiet=True)
    assert_identical(tmp_path / "run", tmp_path / "apart")


def test_a_card_tells_what_each_stage_did(config_of: MakeConfig, tmp_path: Path) -> None:
    regularized = ("regularization.level=token", "corpus.length=16")
    stages = [StageConfig("soft", 3, regularized), StageConfig("plain", 3)]
    hf = pretrain(with_stages(config_of("mlm"), stages), tmp_path / "run", quiet=True).hugging_face
    for folder in (hf, export(str(tmp_path / "run"), out=tmp_path / "out").path):
        card = (folder / "README.md").read_text()
        assert "| soft regularization | soft: token; plain: none |" in card
        assert "| rows a step | soft: 8 of 16 tokens; plain: 8 of 24 tokens |" in card
        assert "Soft regularization at the level of token." in card and "A baseline" not in card


def added_again() -> StageConfig:
    return StageConfig("yet-more", 2)


@pytest.mark.parametrize(
    ("first", "second", "behind"),
    [
        ("corpus.path=wiki", "corpus.path=./wiki/", 40),
        ("corpus.mixture=wiki:0.70,books:0.30", "corpus.mixture=wiki:7, books:3", 40),
        ("corpus.mixture=wiki:0.7,books:0.3", "corpus.mixture=wiki:0.6,books:0.4", 0),
        ("corpus.path=wiki", "corpus.path=books", 0),
    ],
)
def test_rows_go_on_however_their_corpus_is_spelled(first: str, second: str, behind: int) -> None:
    config = override(preset("electra-tiny"), ["train.batch_size=4"])
    config = with_stages(config, [StageConfig("a", 10, (first,)), StageConfig("b", 10, (second,))])
    assert [stage.place for stage in stages_of(config)] == [0, behind]


def test_a_stage_that_would_begin_at_another_row_is_refused(config_of: MakeConfig, tmp_path: Path) -> None:
    config, run = config_of("mlm", "train.save_every=3"), tmp_path / "run"
    own = StageConfig("decay", 4, (f"corpus.path={config.corpus.path}",))
    config = with_stages(config, [StageConfig("first", 8), own])
    cut_run(config, run, 5)
    moved = tmp_path / "moved"
    moved.symlink_to(config.corpus.path)
    elsewhere = replace(config, corpus=replace(config.corpus, path=str(moved)))
    with pytest.raises(CheckpointError, match=r"stage 'decay' would begin at row 0 .* was to begin at row \d+"):
        pretrain(elsewhere, run, resume=True, quiet=True)
    both = with_stages(elsewhere, [StageConfig("first", 8), replace(own, settings=(f"corpus.path={moved}",))])
    assert pretrain(both, run, resume=True, quiet=True).step == 12


def test_a_run_without_stages_can_be_given_more(config_of: MakeConfig, tmp_path: Path) -> None:
    config = config_of("mlm", "schedule=constant")
    pretrain(config, tmp_path / "run", quiet=True)
    decay = StageConfig("decay", 6, ("schedule=1-sqrt",))
    longer = with_stages(config, [StageConfig("all", config.train.steps), decay])
    assert pretrain(longer, tmp_path / "run", resume=True, quiet=True).step == 30
    pretrain(longer, tmp_path / "whole", quiet=True)
    ours, theirs = final_tensors(tmp_path / "run"), final_tensors(tmp_path / "whole")
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["corpus.length=65"], "stage 'b': corpus.length=65: this model has only 64 positions"),
        (["corpus.path=nowhere"], "stage 'b': .*nowhere"),
        (["train.accumulation=3"], "stage 'b': train.batch_size=8 does not divide among 1 processes times 3"),
        (["correction.detector=lexcial"], "stage 'b': .*did you mean 'lexical'"),
        (["model.num_layers=3"], "stage 'b': model.num_layers belongs to the whole run"),
        (["train.seed=3"], "stage 'b': train.seed belongs to the whole run"),
        (["train.precision=bf16"], "stage 'b': train.precision belongs to the whole run"),
        (["optimizer.name=electra-code"], "stage 'b': optimizer.name belongs to the whole run"),
        (["objective.name=electra"], "stage 'b': objective.name belongs to the whole run"),
        (["masking.rat=0.1"], "stage 'b': unknown option 'masking.rat': did you mean 'objective.masking.rate'"),
        (["masking.rate=1.5"], r"stage 'b': objective.masking.rate must be in \(0, 1\), got 1.5"),
        (["masking.max_span=3"], "stage 'b': objective.masking.max_span does nothing unless"),
        (["train.steps=3"], "stage 'b': train.steps is the whole run's"),
        (["train.batch_warmup_steps=3", "batch_warmup_from=3"], "does not reach train.batch_size=8 in steps of 3"),
        (["train.batch_warmup_steps=9"], "stage 'b': train.batch_warmup_steps=9 is more than the 4 steps"),
    ],
)
def test_a_stage_that_cannot_be_is_refused_before_anything_is_trained(
    settings: Sequence[str], message: str, config_of: MakeConfig, tmp_path: Path
) -> None:
    config = config_of("mlm")
    for act in (lambda wanted: pretrain(wanted, tmp_path / "run", quiet=True), rehearse):
        with pytest.raises(TruenegError, match=message):
            act(with_stages(config, [StageConfig("a", 4), StageConfig("b", 4, tuple(settings))]))
    assert not (tmp_path / "run").exists()


def test_packing_of_a_later_stage_is_checked_first(config_of: MakeConfig) -> None:
    config = override(config_of("mlm"), ["model.architecture=convbert", "model.hidden_size=32", "model.num_heads=2"])
    with pytest.raises(TruenegError, match="stage 'b': 'convbert' cannot keep the documents of one row apart"):
        rehearse(with_stages(config, [StageConfig("a", 4), StageConfig("b", 4, ("corpus.pack=true",))]))


def test_a_corpus_of_another_tokenizer_is_refused(config_of: MakeConfig, tmp_path: Path) -> None:
    backend = Tokenizer(models.WordPiece(numbered([*SPECIAL, "other", *ENTRIES]), unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    wrapped(backend).save_pretrained(str(tmp_path / "tokenizer"))
    (tmp_path / "text.txt").write_text("\n\n".join(documents(60)))
    build_corpus([str(tmp_path / "text.txt")], tmp_path / "tokenizer", tmp_path / "corpus")
    stages = [StageConfig("a", 4), StageConfig("b", 4, (f"corpus.path={tmp_path / 'corpus'}",))]
    with pytest.raises(CorpusError, match=r"stage 'b': the corpus .* was built with tokenizer"):
        pretrain(with_stages(config_of("mlm"), stages), tmp_path / "run", quiet=True)


def test_stages_of_a_file_and_of_the_command_line(config_of: MakeConfig, corpus: Path, tmp_path: Path) -> None:
    file = tmp_path / "stages.toml"
    file.write_text(
        """
        [[stage]]
        name = "stable"
        steps = 30
        objective.masking.rate = 0.3
        optimizer = { schedule = "constant", warmup_steps = 3 }

        [[stage]]
        name = "decay"
        tokens = 1_000
        keep = true
        "masking.rate" = 0.05
        schedule = "1-sqrt"
        """
    )
    base = ["corpus.length=25", "train.batch_size=4", f"corpus.path={corpus}"]
    config = configure("electra-tiny", stages=file, settings=base)
    assert config.stages == (
        StageConfig(
            "stable", 30, ("objective.masking.rate=0.3", "optimizer.schedule=constant", "optimizer.warmup_steps=3")
        ),
        StageConfig("decay", 10, ("objective.masking.rate=0.05", "optimizer.schedule=1-sqrt"), keep=True),
    )
    assert [stage.config.optimizer.warmup_steps for stage in stages_of(config)] == [3, 0]
    # Only the first stage has the run's warm-up of the batch size: 20 rows are 5 steps of 4.
    rising = configure("electra-tiny", stages=file, settings=[*base, "batch_warmup_steps=6", "batch_warmup_from=1"])
    assert rising.stages[1].steps == 10
    half = configure("electra-tiny", stages=file, settings=[*base, "steps=20", "stages.decay.masking.rate=0.1"])
    assert [stage.steps for stage in half.stages] == [15, 5]
    assert half.stages[1].settings == ("optimizer.schedule=1-sqrt", "objective.masking.rate=0.1")
    with pytest.raises(ConfigError, match=r"optimizer.schedule does nothing, as every stage sets it"):
        configure("electra-tiny", stages=file, settings=[*base, "schedule=linear"])
    with pytest.raises(ConfigError, match="unknown stage 'decai': did you mean 'decay'"):
        configure("electra-tiny", stages=file, settings=[*base, "stages.decai.steps=3"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[stage]", "is no TOML"),
        ("", "has no stages: write"),
        ("[[stages]]\nsteps = 3", "unknown table 'stages': did you mean 'stage'"),
        ("[[stage]]\nname = 'a'", "stage 'a': say how long it is"),
        ("[[stage]]\nsteps = 3\ntokens = 3", "stage 'stage-1': say how long it is"),
        ("[[stage]]\nname = 'a'\nsteps = 0", "stage 'a': steps must be at least 1, got 0"),
        ("[[stage]]\nname = 'a'\nsteps = -5", "stage 'a': steps must be at least 1, got -5"),
        ("[[stage]]\nname = 'a'\nsteps = '5'", "stage 'a': steps must be a whole number, got '5'"),
        ("[[stage]]\nname = 'a b'\nsteps = 5", "its name must be letters"),
        ("[[stage]]\nname = 'a'\nsteps = 5\n[[stage]]\nname = 'a'\nsteps = 5", "stage 'a' is there twice"),
        (
            "[[stage]]\nname = 'a'\nsteps = 5\nlearning_rte = 1",
            "stage 'a': unknown option 'learning_rte': did you mean",
        ),
        ("[[stage]]\nname = 'a'\nsteps = 5\ncorpus.length = [3]", "stage 'a': corpus.length must be text, a number"),
        ("[[stage]]\nname = 'a'\nsteps = 5\ncorpus.length = 'x'", "corpus.length must be a whole number, got 'x'"),
        ("[[stage]]\nname = 3\nsteps = 5", "name must be text, got 3"),
    ],
)
def test_a_damaged_file_of_stages_is_named(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "stages.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        configure("electra-tiny", stages=file)


def test_a_missing_file_of_stages_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read '.*none.toml'.*give --stages a TOML file"):
        configure("electra-tiny", stages=tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe[[stage]]")
    with pytest.raises(ConfigError, match="is no TOML"):
        configure("electra-tiny", stages=tmp_path / "bytes.toml")


def test_a_benchmark_measures_one_stage_and_says_which() -> None:
    config, said = preset("modernbert-base-staged"), list[str]()
    first, decay = of_stage(config, "", said.append), of_stage(config, "decay", said.append)
    assert said == [f"measuring stage '{name}' of pretrain, extend, decay" for name in ("pretrain", "decay")]
    expected = [override(replace(one.config, stages=()), ["batch_warmup_steps=0"]) for one in stages_of(config)]
    assert [first, decay] == [expected[0], expected[2]]
    assert (first.corpus.length, decay.corpus.length) == (1024, 8192)
    plain = preset("electra-tiny")
    assert of_stage(plain, "", said.append) == plain and len(said) == 2


@pytest.mark.parametrize("name", ["modernbert-base-staged", "mmbert-base-staged"])
def test_a_benchmark_measures_full_batches(name: str) -> None:
    config = preset(name)
    assert rows_of_step(stages_of(config)[0].config.train, 3) < config.train.batch_size
    measured = of_stage(config, "", lambda message: None).train
    assert [rows_of_step(measured, step) for step in range(4)] == [config.train.batch_size] * 4
    one_row = _of_one_row(of_stage(config, "", lambda message: None)).train
    check_rows(one_row, one_row.steps)
