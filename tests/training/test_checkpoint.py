"""Checkpoints: whole or not at all, verified when read, never taken for another run's."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import save_model
from torch import nn
from torch.optim import AdamW

from trueneg.config.codec import decode, encode, override
from trueneg.config.fields import names_where
from trueneg.config.options import OptimizerConfig, PretrainConfig
from trueneg.errors import CheckpointError, TruenegWarning
from trueneg.training import checkpoint
from trueneg.training.checkpoint import (
    STATE,
    State,
    check_same_run,
    latest_checkpoint,
    load_checkpoint,
    save_checkpoint,
    tables_digest,
)
from trueneg.training.optimizer import make_optimizer, optimizer_tensors

CONFIG = PretrainConfig()


class Tied(nn.Module):
    """Two layers with one weight, as an encoder and its head have."""

    def __init__(self, width: int = 4, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)
        self.second.weight = self.first.weight

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.second(self.first(values))
        return result


def trained(seed: int = 0, width: int = 4) -> tuple[Tied, AdamW]:
    module = Tied(width, seed)
    optimizer = make_optimizer(module, OptimizerConfig())
    module(torch.ones(2, width)).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    return module, optimizer


def save(folder: Path, step: int, keep: int = 9, seed: int = 0) -> Path:
    return save_checkpoint(folder, *trained(seed), State(step, encode(CONFIG), "corpus", 1.5, {"term/mlm": 0.1}), keep)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_is_saved_comes_back_bit_for_bit(tmp_path: Path) -> None:
    module, optimizer = trained(seed=1)
    state = State(7, encode(CONFIG), "corpus", 1.5, {"term/mlm": 0.1 + 0.2})
    save_checkpoint(tmp_path, module, optimizer, state, keep=2)
    found = latest_checkpoint(tmp_path)
    assert found is not None
    path, loaded = found
    assert loaded == state
    assert decode(PretrainConfig, loaded.config) == CONFIG
    other, fresh = Tied(seed=2), None
    fresh = make_optimizer(other, OptimizerConfig())
    load_checkpoint(path, other, fresh)
    assert other.second.weight is other.first.weight
    for ours, theirs in zip(module.state_dict().values(), other.state_dict().values(), strict=True):
        assert torch.equal(ours, theirs)
    before, after = optimizer_tensors(optimizer, module), optimizer_tensors(fresh, other)
    assert before.keys() == after.keys() and len(before) == 9
    assert all(torch.equal(before[name], after[name]) for name in before)
    for each, its_optimizer in ((module, optimizer), (other, fresh)):
        each(torch.ones(2, 4)).sum().backward()
        its_optimizer.step()
    assert torch.equal(module.first.weight, other.first.weight)


@pytest.mark.parametrize(("umask", "mode"), [(0o077, 0o600), (0o022, 0o644)])
def test_files_are_readable_as_the_umask_has_it(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        save_checkpoint(tmp_path, *trained(), State(7, encode(CONFIG), "corpus", 1.5), keep=2)
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "step-000000007").iterdir()} == {mode}


def test_there_may_be_none(tmp_path: Path) -> None:
    assert latest_checkpoint(tmp_path) is None
    assert latest_checkpoint(tmp_path / "nowhere") is None


def test_weights_alone_can_be_loaded(tmp_path: Path) -> None:
    module, _ = trained(seed=1)
    other = Tied(seed=2)
    load_checkpoint(save(tmp_path, 1, seed=1), other)
    assert torch.equal(module.first.weight, other.first.weight)


def truncate(name: str) -> Callable[[Path], None]:
    return lambda path: os.truncate(path / name, (path / name).stat().st_size // 2)


def remove(name: str) -> Callable[[Path], None]:
    return lambda path: (path / name).unlink()


def remove_all(path: Path) -> None:
    for file in path.iterdir():
        file.unlink()


def pretend_another_step(path: Path) -> None:
    text = (path / "state.json").read_text()
    (path / "state.json").write_text(text.replace('"step": 20', '"step": 21'))


def forget_its_digest(path: Path) -> None:
    data = json.loads((path / "state.json").read_text())
    del data["digests"]
    (path / "state.json").write_text(json.dumps(data))


def put(content: bytes) -> Callable[[Path], None]:
    return lambda path: (path / "state.json").write_bytes(content) and None


def mistype_its_step(path: Path) -> None:
    """With a digest that is right: nobody but a person does this."""
    data = json.loads((path / "state.json").read_text())
    del data["digest"]
    data["step"] = "20"
    (path / "state.json").write_text(json.dumps({**data, "digest": checkpoint._digest_of(data)}))


FILES = ("model.safetensors", "optimizer.safetensors", "state.json")
DAMAGES = {
    **{f"truncated {name}": truncate(name) for name in FILES},
    **{f"missing {name}": remove(name) for name in FILES},
    "empty folder": remove_all,
    "another step": pretend_another_step,
    "no digests": forget_its_digest,
    "no object": put(b"[]"),
    "a number": put(b"7"),
    "no text": put(b"\0\xff" * 40),
    "deep": put(b"[" * 100_000),
    "wrong types": mistype_its_step,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_torn_checkpoint_is_named_and_the_one_before_it_taken(damage: str, tmp_path: Path) -> None:
    first, second = save(tmp_path, 10), save(tmp_path, 20)
    DAMAGES[damage](second)
    with pytest.warns(TruenegWarning, match=rf"checkpoint '{second}' is torn \(.+\): falling back"):
        found = latest_checkpoint(tmp_path)
    assert found is not None
    assert (found[0], found[1].step) == (first, 10)


@pytest.mark.parametrize("name", FILES)
def test_no_flipped_bit_goes_unseen(name: str, tmp_path: Path) -> None:
    """In ``state.json`` a bit may fall into white space; then nothing has changed."""
    path = save(tmp_path, 10)
    whole, state = (path / name).read_bytes(), latest_checkpoint(tmp_path)
    choose = random.Random(name)
    for _ in range(40):
        place, bit = choose.randrange(len(whole)), choose.randrange(8)
        flipped = bytearray(whole)
        flipped[place] ^= 1 << bit
        (path / name).write_bytes(flipped)
        try:
            with pytest.warns(TruenegWarning, match="is torn"):
                latest_checkpoint(tmp_path)
        except CheckpointError:
            continue
        except pytest.fail.Exception:
            assert name == "state.json" and latest_checkpoint(tmp_path) == state
    (path / name).write_bytes(whole)
    assert latest_checkpoint(tmp_path) == state


@pytest.mark.filterwarnings("ignore::trueneg.errors.TruenegWarning")
def test_nothing_but_torn_ones_is_an_error(tmp_path: Path) -> None:
    for step in (10, 20):
        truncate("model.safetensors")(save(tmp_path, step))
    with pytest.raises(CheckpointError, match=f"every checkpoint under '{tmp_path}' is torn: start the run anew"):
        latest_checkpoint(tmp_path)


def test_a_checkpoint_that_is_a_link_is_dropped_and_what_it_points_to_stays(tmp_path: Path) -> None:
    elsewhere, run = tmp_path / "elsewhere", tmp_path / "run"
    run.mkdir()
    save(elsewhere, 5)
    (run / "step-000000005").symlink_to(elsewhere / "step-000000005")
    assert latest_checkpoint(run)[1].step == 5
    for step in (10, 20):
        save(run, step, keep=2)
    assert names(run) == ["step-000000010", "step-000000020"]
    assert latest_checkpoint(elsewhere)[1].step == 5


MANY_TIED = """
import sys, torch
from pathlib import Path
from torch import nn
from trueneg.training.checkpoint import save_weights
torch.manual_seed(0)
layers = [nn.Linear(2, 2) for _ in range(9)]
for layer in layers[1:]:
    layer.weight, layer.bias = layers[0].weight, layers[0].bias
save_weights(nn.Sequential(*layers), Path(sys.argv[1]))
"""


def test_the_same_weights_are_the_same_bytes_in_every_process(tmp_path: Path) -> None:
    for number in range(2):
        environment = {**os.environ, "PYTHONHASHSEED": str(number)}
        path = str(tmp_path / str(number))
        subprocess.run([sys.executable, "-c", MANY_TIED, path], check=True, env=environment, timeout=120)
    assert (tmp_path / "0").read_bytes() == (tmp_path / "1").read_bytes()


def test_checkpoints_of_earlier_versions_are_read(tmp_path: Path) -> None:
    """They were written by ``save_model``."""
    path = save(tmp_path, 10, seed=1)
    save_model(trained(seed=2)[0], str(path / "model.safetensors"), metadata={"format": "pt"})
    other = Tied(seed=3)
    load_checkpoint(path, other)
    assert torch.equal(other.second.weight, trained(seed=2)[0].first.weight)
    assert other.second.weight is other.first.weight


def test_the_last_two_are_kept(tmp_path: Path) -> None:
    for step in (5, 10, 15, 1_000):
        save(tmp_path, step, keep=2)
    assert names(tmp_path) == ["step-000000015", "step-000001000"]


@pytest.mark.filterwarnings("ignore::trueneg.errors.TruenegWarning")
def test_torn_ones_ahead_do_not_push_whole_ones_out(tmp_path: Path) -> None:
    for step in (10, 20, 30):
        save(tmp_path, step)
    for torn in ("step-000000020", "step-000000030"):
        truncate("model.safetensors")(tmp_path / torn)
    assert latest_checkpoint(tmp_path)[1].step == 10
    save(tmp_path, 15, keep=2)
    assert names(tmp_path) == ["step-000000010", "step-000000015"]


def test_the_same_step_again_replaces_the_first(tmp_path: Path) -> None:
    save(tmp_path, 10, seed=1)
    path = save(tmp_path, 10, seed=2)
    other = Tied(seed=3)
    load_checkpoint(path, other)
    assert torch.equal(other.first.weight, trained(seed=2)[0].first.weight)


def test_what_a_killed_save_left_is_passed_over_and_removed(tmp_path: Path) -> None:
    save(tmp_path, 10)
    leftover = tmp_path / ".unfinished-000000020"
    leftover.mkdir()
    (leftover / "model.safetensors").write_bytes(b"half")
    assert latest_checkpoint(tmp_path)[1].step == 10
    save(tmp_path, 30)
    assert names(tmp_path) == ["step-000000010", "step-000000030"]


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
        SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
    ],
)
@pytest.mark.parametrize("step_of_saving", ["save_weights", "save_file", "_flush"])
def test_a_full_disk_leaves_the_earlier_ones_and_nothing_else(
    error: Exception, step_of_saving: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, 10)
    before = content(tmp_path)

    def fail(*arguments: Any) -> None:
        raise error

    monkeypatch.setattr(checkpoint, step_of_saving, fail)
    with pytest.raises(CheckpointError, match=r"cannot save step 20 .* the disk is full; .* make room and continue"):
        save(tmp_path, 20)
    assert content(tmp_path) == before


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match=f"cannot save step 1 under '{tmp_path / 'file'}'"):
        save(tmp_path / "file", 1)


def test_another_model_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path, 10)
    for foreign in (Tied(width=5), nn.Linear(4, 4)):
        with pytest.raises(CheckpointError, match=f"'{path}' belongs to another model"):
            load_checkpoint(path, foreign)


def test_another_optimizer_state_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path, 10)
    module, optimizer = trained()
    tensors = {f"absent.{name}": value for name, value in optimizer_tensors(optimizer, module).items()}
    checkpoint.save_file(tensors, str(path / "optimizer.safetensors"))
    with pytest.raises(CheckpointError, match="belongs to another model"):
        load_checkpoint(path, module, optimizer)


RUN = Path("run")
STATE_OF_TEN = State(10, encode(CONFIG), "corpus+notes", tables="ours", micro_batch=16)


def test_the_same_run_goes_on_and_what_is_not_known_is_not_refused() -> None:
    check_same_run(STATE_OF_TEN, CONFIG, RUN, data="corpus+notes", tables="ours", micro_batch=16)
    unknown = dataclasses.replace(STATE_OF_TEN, tables="", micro_batch=0)
    check_same_run(unknown, CONFIG, RUN, data="corpus+notes", tables="theirs", micro_batch=8)


@pytest.mark.parametrize(
    ("data", "tables", "named"),
    [
        ("another", "ours", "other data"),
        ("corpus+changed", "ours", "other annotations or tags"),
        ("corpus+notes", "theirs", "theirs"),
    ],
)
def test_other_data_and_other_tables_are_refused(data: str, tables: str, named: str) -> None:
    with pytest.raises(CheckpointError, match=f"'run' was trained .*{named}"):
        check_same_run(STATE_OF_TEN, CONFIG, RUN, data=data, tables=tables)


def test_a_checkpoint_under_the_names_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    path = save(tmp_path, 3) / STATE
    state = json.loads(path.read_text())
    state["corpus"] = state.pop("data")
    del state["digest"]
    path.write_text(json.dumps({**state, "digest": checkpoint._digest_of(state)}))
    found = latest_checkpoint(tmp_path)
    assert found is not None and found[1].data == "corpus"


class Lookup(nn.Module):
    """A table that checkpoints leave out, and a count that they hold."""

    def __init__(self, table: list[float], count: int = 0) -> None:
        super().__init__()
        self.register_buffer("table", torch.tensor(table), persistent=False)
        self.register_buffer("count", torch.tensor(count))


def test_the_digest_is_of_what_checkpoints_leave_out() -> None:
    same = {tables_digest(Lookup([1, 2])), tables_digest(Lookup([1, 2], count=5))}
    assert len(same) == 1
    others = [Lookup([1, 3]), Lookup([1.0, 2.0]), Lookup([1, 2, 0]), Lookup([1])]
    assert len(same | {tables_digest(other) for other in others} | {tables_digest(Lookup([1, 2]), "views")}) == 6


@pytest.mark.parametrize(
    ("num_processes", "accumulation", "remedy"),
    [
        (1, 1, "resume with train.accumulation=2,"),
        (2, 2, "resume with train.accumulation=1,"),
        (4, 1, r"no train.accumulation gives that on this many processes \(4\)"),
    ],
)
def test_another_micro_batch_is_refused_with_the_accumulation_that_keeps_it(
    num_processes: int, accumulation: int, remedy: str
) -> None:
    config = override(CONFIG, ["train.batch_size=32", f"train.accumulation={accumulation}"])
    rows = 32 // (num_processes * accumulation)
    with pytest.raises(CheckpointError, match=f"'run' was trained on 16 rows a micro-batch.*{remedy}"):
        check_same_run(STATE_OF_TEN, config, RUN, data="corpus+notes", micro_batch=rows)


def options(kind: type = PretrainConfig, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every option's dotted name and type."""
    for name, hint in get_type_hints(kind).items():
        if dataclasses.is_dataclass(hint):
            yield from options(hint, f"{prefix}{name}.")
        else:
            yield prefix + name, hint


def another(hint: Any, value: Any) -> Any:
    """Another value of an option's type."""
    if get_origin(hint) is Literal:
        return next(choice for choice in get_args(hint) if choice != value)
    if isinstance(value, list):
        return [{"name": "stage", "steps": 3}]
    return {bool: lambda: not value, str: lambda: f"{value}x"}.get(hint, lambda: value + 1)()


def test_a_changed_option_is_refused_by_name_unless_the_curve_does_not_depend_on_it() -> None:
    accepted = set()
    for name, hint in options():
        saved = group = encode(CONFIG)
        *groups, last = name.split(".")
        for part in groups:
            group = group[part]
        group[last] = another(hint, group[last])
        try:
            check_same_run(State(10, saved, "corpus"), CONFIG, RUN, data="corpus")
            accepted.add(name)
        except CheckpointError as error:
            assert f"'run' was trained with other options ({name}: " in str(error)
    assert accepted == names_where(PretrainConfig, lambda rule: rule.resume != "same")
    assert accepted.isdisjoint({"optimizer.learning_rate", "train.steps", "train.batch_size", "train.seed"})


def test_all_differences_are_named_with_both_values() -> None:
    other = override(CONFIG, ["optimizer.learning_rate=1", "train.steps=7", "train.accumulation=2"])
    with pytest.raises(CheckpointError, match=r"optimizer.learning_rate: 0.0005 -> 1.0; train.steps: 1000 -> 7\)"):
        check_same_run(STATE_OF_TEN, other, RUN, data="corpus+notes")


def test_a_configuration_of_another_version_is_named_as_such() -> None:
    state = State(1, {"novelty": 1}, "corpus", version="9.9")
    with pytest.raises(CheckpointError, match=r"'run' was written by trueneg 9.9: unknown option 'novelty'"):
        check_same_run(state, CONFIG, RUN, data="corpus")
