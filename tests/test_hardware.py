"""Devices that are not here: what is chosen of those that torch sees, and how each is spoken to."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from trueneg import hardware
from trueneg.config.options import TrainConfig
from trueneg.errors import ConfigError
from trueneg.training import distributed
from trueneg.training.distributed import choose_device
from trueneg.training.precision import resolve_precision


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


def seen(monkeypatch: pytest.MonkeyPatch, *kinds: str) -> None:
    """Let torch see devices of some types only."""
    for kind in ("cuda", "xpu"):
        monkeypatch.setattr(getattr(torch, kind), "is_available", lambda kind=kind: kind in kinds)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: "mps" in kinds)


@pytest.mark.parametrize(
    ("kinds", "wanted", "chosen"),
    [
        ((), "", "cpu"),
        (("mps",), "", "cpu"),
        (("mps",), "mps", "mps"),
        (("mps",), "mps:0", "mps"),
        (("xpu", "mps"), "", "xpu:0"),
        (("xpu",), "xpu:1", "xpu:1"),
        (("cuda", "xpu"), "", "cuda:0"),
        (("cuda", "xpu"), "xpu", "xpu:0"),
        (("cuda", "xpu", "mps"), "cpu", "cpu"),
    ],
)
def test_a_device_is_chosen(kinds: tuple[str, ...], wanted: str, chosen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen(monkeypatch, *kinds)
    assert choose_device(wanted) == torch.device(chosen)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("xpu", r"train.device=xpu: torch sees no GPU here \(an Intel GPU\)"),
        ("mps", r"train.device=mps: torch sees no GPU here \(an Apple GPU\)"),
        ("vulkan", "runs on cpu, cuda, xpu or mps, not on vulkan"),
    ],
)
def test_one_that_is_not_there(wanted: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen(monkeypatch)
    with pytest.raises(ConfigError, match=message):
        choose_device(wanted)


def test_several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    seen(monkeypatch, "xpu", "mps")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert choose_device("") == choose_device("xpu") == torch.device("xpu", 1)
    with pytest.raises(ConfigError, match="all 2 processes would share that GPU"):
        choose_device("xpu:0")
    with pytest.raises(ConfigError, match="an Apple GPU is one, and takes no messages of 2 processes"):
        choose_device("mps")


@pytest.mark.parametrize(("kind", "backend"), [("cpu", "gloo"), ("cuda", "nccl"), ("xpu", "xccl")])
def test_each_has_its_messages(kind: str, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The group is made with the device's own backend, after the process has taken its device."""
    told: list[object] = []
    for name, value in {
        "WORLD_SIZE": "2",
        "RANK": "1",
        "LOCAL_RANK": "1",
        "MASTER_ADDR": "h",
        "MASTER_PORT": "1",
    }.items():
        monkeypatch.setenv(name, value)
    for module in (torch.cuda, torch.xpu):
        monkeypatch.setattr(module, "set_device", told.append)
    monkeypatch.setattr(torch.distributed, "init_process_group", lambda name, **_: told.append(name))
    monkeypatch.setattr(torch.distributed, "destroy_process_group", lambda: None)
    with distributed.join_processes(kind) as processes:
        assert processes.world_size == 2
    assert told == ([backend] if kind == "cpu" else [1, backend])


@pytest.mark.parametrize(
    ("kind", "has_bf16", "precision"),
    [
        ("cuda", True, "bf16"),
        ("cuda", False, "fp16"),
        ("xpu", True, "bf16"),
        ("xpu", False, "fp16"),
        ("mps", None, "fp32"),
    ],
)
def test_the_precision_is_what_it_can(
    kind: str, has_bf16: bool | None, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (torch.cuda, torch.xpu):
        monkeypatch.setattr(module, "is_bf16_supported", lambda including_emulation: has_bf16, raising=False)
    assert resolve_precision(TrainConfig(precision="auto"), torch.device(kind)).precision == precision


def test_draws_are_seeded_on_each(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, int]] = []
    generators = [SimpleNamespace(manual_seed=lambda seed, n=n: told.append((f"xpu:{n}", seed))) for n in range(2)]
    monkeypatch.setattr(torch.xpu, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.xpu, "default_generators", generators)
    monkeypatch.setattr(torch.mps, "manual_seed", lambda seed: told.append(("mps", seed)))
    hardware.seed_draws(5, torch.device("xpu", 1))
    assert torch.initial_seed() == 5
    hardware.seed_draws(6, torch.device("mps"))
    assert torch.initial_seed() == 6 and told == [("xpu:1", 5), ("mps", 6)]


def test_a_moment_of_random_state_is_gone_back_to(monkeypatch: pytest.MonkeyPatch) -> None:
    state = hardware.RandomState(torch.device("cpu"))
    first = torch.rand(3)
    state.restore()
    assert torch.equal(torch.rand(3), first)
    told: list[object] = []
    monkeypatch.setattr(torch.xpu, "get_rng_state", lambda device: f"state of {device}")
    monkeypatch.setattr(torch.xpu, "set_rng_state", lambda *given: told.append(given))
    monkeypatch.setattr(torch.mps, "get_rng_state", lambda: "state of mps")
    monkeypatch.setattr(torch.mps, "set_rng_state", lambda *given: told.append(given))
    for device in (torch.device("xpu", 1), torch.device("mps")):
        hardware.RandomState(device).restore()
    assert told == [("state of xpu:1", torch.device("xpu", 1)), ("state of mps",)]


def test_it_is_waited_for_named_and_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    xpu, mps = torch.device("xpu", 0), torch.device("mps")
    monkeypatch.setattr(torch.xpu, "synchronize", told.append)
    monkeypatch.setattr(torch.xpu, "get_device_name", lambda device: "Intel Max 1550")
    monkeypatch.setattr(torch.xpu, "max_memory_allocated", lambda device: 3)
    monkeypatch.setattr(torch.xpu, "get_device_properties", lambda device: SimpleNamespace(total_memory=9))
    monkeypatch.setattr(torch.mps, "synchronize", lambda: told.append(mps))
    monkeypatch.setattr(torch.mps, "driver_allocated_memory", lambda: 4)
    monkeypatch.setattr(torch.mps, "recommended_max_memory", lambda: 8)
    for device in (torch.device("cpu"), xpu, mps):
        hardware.synchronize(device)
    assert told == [xpu, mps]
    assert [hardware.name_of(device) for device in (xpu, mps)] == ["Intel Max 1550", "Apple GPU"]
    assert [hardware.peak_memory(device) for device in (xpu, mps)] == [(3, 9), (4, 8)]
    assert [hardware.pins_memory(torch.device(kind)) for kind in ("cpu", "cuda", "xpu", "mps")] == [0, 1, 1, 0]
