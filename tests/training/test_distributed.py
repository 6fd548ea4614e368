"""What the environment says of several processes, and what it fails to say."""

from __future__ import annotations

import pytest
import torch

from trueneg.errors import ConfigError
from trueneg.training.distributed import choose_device, join_processes

VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_without_a_word_there_is_one_process() -> None:
    with join_processes("cpu") as processes:
        assert (processes.rank, processes.world_size, processes.is_main) == (0, 1, True)
        assert not torch.distributed.is_initialized()


@pytest.mark.parametrize("lacking", ["RANK", "MASTER_ADDR", "MASTER_PORT"])
def test_processes_that_are_not_told_apart_are_refused_by_name(lacking: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"WORLD_SIZE": "2", "RANK": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "29400"}.items():
        if name != lacking:
            monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=rf"^WORLD_SIZE=2, but {lacking} is not set: start with torchrun"):
        join_processes("cpu").__enter__()


@pytest.mark.parametrize("name", ["WORLD_SIZE", "RANK"])
def test_what_is_no_number_is_refused_by_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "29400"}.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv(name, "two")
    with pytest.raises(ConfigError, match=rf"^{name} must be a whole number"):
        join_processes("cpu").__enter__()


def test_one_gpu_is_not_for_several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert choose_device("cuda:0") == torch.device("cuda", 0)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match=r"train.device=cuda:0: all 2 processes would share that GPU: leave it out"):
        choose_device("cuda:0")
    assert choose_device("cuda") == choose_device("") == torch.device("cuda", 1)
    assert choose_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize(("wanted", "message"), [("gpu", "or mps, got gpu"), ("meta", "not on meta")])
def test_devices_that_are_none(wanted: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"train.device.*{message}"):
        choose_device(wanted)
