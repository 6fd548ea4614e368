"""``train.precision=auto``: what the device computes in hardware, kept by the run; a GPU without bfloat16."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from trueneg.config.options import PretrainConfig, TrainConfig
from trueneg.config.presets import CONTINUE, PRESETS
from trueneg.errors import ConfigError
from trueneg.training import precision
from trueneg.training.distributed import Processes
from trueneg.training.precision import agree_on_precision, resolve_precision, resolve_run_precision

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
AUTO = replace(PretrainConfig(), train=TrainConfig(precision="auto"))


@pytest.mark.parametrize(("is_faster", "chosen"), [(True, "bf16"), (False, "fp32"), (None, "fp32")])
def test_a_cpu_trains_in_what_is_faster(is_faster: bool | None, chosen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "is_bfloat16_faster", lambda device: is_faster)
    assert resolve_precision(AUTO.train, CPU).precision == chosen


def test_a_torch_that_cannot_tell_trains_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    config, note = resolve_run_precision(AUTO, CPU, Path("nowhere"))
    assert config.train.precision == "fp32"
    assert note == "precision: fp32, since bfloat16 is not known to be faster on this CPU (train.precision=auto)"


@pytest.mark.parametrize("wanted", ["fp32", "bf16"])
@pytest.mark.parametrize("is_native", [True, False])
def test_what_is_asked_for_stays(wanted: str, is_native: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(precision, "is_bfloat16_faster", lambda device: is_native)
    (tmp_path / "config.json").write_text(json.dumps({"train": {"precision": "fp32"}}))
    asked = replace(AUTO, train=TrainConfig(precision=wanted))  # type: ignore[arg-type]
    assert resolve_run_precision(asked, CPU, tmp_path) == (asked, "")


def test_an_old_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: including_emulation)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla T4")
    assert resolve_precision(AUTO.train, GPU).precision == "fp16"
    with pytest.raises(ConfigError, match=r"Tesla T4 has no bfloat16: use train.precision=fp16, or auto"):
        resolve_precision(TrainConfig(precision="bf16"), GPU)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: True)
    assert resolve_precision(AUTO.train, GPU).precision == "bf16"


def test_what_does_not_train_in_half_precision_trains_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "is_bfloat16_faster", lambda device: True)
    config, note = resolve_run_precision(AUTO, CPU, Path("nowhere"), refused={"bf16"})
    assert config.train.precision == "fp32"
    assert note == "precision: fp32, since what is trained does not work in bf16 (train.precision=auto)"
    assert resolve_run_precision(AUTO, CPU, Path("nowhere"), refused={"fp16"})[0].train.precision == "bf16"


@pytest.mark.parametrize("began", ["fp32", "bf16"])
def test_a_run_goes_on_as_it_began(began: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "is_bfloat16_faster", lambda device: began == "fp32")  # the other one, were it new
    (tmp_path / "config.json").write_text(json.dumps({"train": {"precision": began}}))
    config, note = resolve_run_precision(AUTO, CPU, tmp_path)
    assert config.train.precision == began and note == f"precision: {began}, as the run began"


def test_a_configuration_that_left_it_open_leaves_it_to_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "is_bfloat16_faster", lambda device: True)
    (tmp_path / "config.json").write_text('{"train": {"precision": "auto"}}')
    assert resolve_run_precision(AUTO, CPU, tmp_path)[0].train.precision == "bf16"


class Voting(Processes):
    """Processes of which another one chose a precision."""

    def __init__(self, other: str) -> None:
        super().__init__(0, 2)
        object.__setattr__(self, "other", other)

    def any_of(self, flags: Sequence[bool], device: torch.device) -> list[bool]:
        others = [self.other == name for name in ("fp32", "fp16")]  # type: ignore[attr-defined]
        return [ours or theirs for ours, theirs in zip(flags, others, strict=True)]


@pytest.mark.parametrize(
    ("own", "other", "chosen"),
    [
        ("bf16", "bf16", "bf16"),
        ("bf16", "fp32", "fp32"),
        ("fp32", "bf16", "fp32"),
        ("bf16", "fp16", "fp16"),
        ("fp16", "fp32", "fp32"),
    ],
)
def test_processes_agree_on_the_most_cautious_precision(own: str, other: str, chosen: str) -> None:
    config = replace(AUTO, train=TrainConfig(precision=own))  # type: ignore[arg-type]
    settled, note = agree_on_precision(config, "as measured", Voting(other), CPU)
    assert settled.train.precision == chosen
    said = f"precision: {chosen}, since another process chose it (train.precision=auto)"
    assert note == ("as measured" if chosen == own else said)


@pytest.mark.parametrize("own", ["fp32", "bf16", "fp16"])
def test_a_single_process_has_its_own_precision(own: str) -> None:
    config = replace(AUTO, train=TrainConfig(precision=own))  # type: ignore[arg-type]
    assert agree_on_precision(config, "as measured", Processes(), CPU) == (config, "as measured")


@pytest.mark.parametrize("text", ["", "[]", '{"train": 3}', "{"])
def test_a_damaged_configuration_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ConfigError, match=r"config\.json"):
        resolve_run_precision(AUTO, CPU, tmp_path)


def test_presets_leave_it_to_the_device_but_for_the_one_of_tests() -> None:
    asked = {name: config.train.precision for name, config in PRESETS.items()}
    assert asked.pop("electra-tiny") == "fp32"
    assert set(asked.values()) == {CONTINUE.train.precision} == {"auto"}
