"""How fast a run is, against arithmetic."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from trueneg.arithmetic import matrix_rate
from trueneg.config.devices import GPUS, find_gpu
from trueneg.training.speed import Peak, Waiting, Workload, peak_of


@pytest.mark.parametrize(
    ("called", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA A100-SXM4-40GB", "A100"),
        ("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"),
        ("NVIDIA A100 80GB PCIe", "A100 80GB PCIe"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("h100", "H100"),
        ("NVIDIA A1000", None),
        ("NVIDIA GeForce GTX 1080", None),
    ],
)
def test_gpus_are_found_by_what_drivers_call_them(called: str, name: str | None) -> None:
    gpu = find_gpu(called)
    assert (gpu and gpu.name) == name


def test_every_gpu_finds_itself() -> None:
    assert all(find_gpu(name) is gpu for name, gpu in GPUS.items())


def test_a_peak_is_the_data_sheets_or_measured_or_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = torch.device("cuda", 0)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H100 80GB HBM3")
    assert peak_of(cuda, "fp32").flops == 989e12
    for name, reason in (("NVIDIA Unheard-of", "in no table"), ("T4", "has no bfloat16")):
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device, name=name: name)
        unknown = peak_of(cuda, "bf16")
        assert not unknown.flops and name in str(unknown) and reason in str(unknown)
        assert Workload(1e6, unknown).mfu(1e6) == {}
    measured = peak_of(torch.device("cpu"), "fp32")
    assert measured.flops == matrix_rate(torch.device("cpu"), "fp32") > 1e8
    assert "measured on this CPU" in str(measured)


def test_mfu_is_the_share_of_all_devices() -> None:
    work = Workload(2e9, Peak(1e13, "made up"))
    assert work.mfu(1000) == {"mfu": pytest.approx(0.2)}
    assert work.mfu(1000, world_size=4) == {"mfu": pytest.approx(0.05)}


def test_waiting_counts_what_is_late_and_nothing_else() -> None:
    def late(seconds: list[float]) -> Iterator[int]:
        for number, one in enumerate(seconds):
            time.sleep(one)
            yield number

    waiting, got = Waiting(), []
    for item in waiting.timed(late([0.05, 0.0, 0.03])):
        time.sleep(0.02)
        got.append(item)
    assert got == [0, 1, 2]
    assert 0.08 <= waiting.take() < 0.13
    assert waiting.take() == 0


def test_waiting_lets_go_of_what_it_reads() -> None:
    closed = []

    def source() -> Iterator[Any]:
        try:
            yield 1
            yield 2
        finally:
            closed.append(True)

    for _ in Waiting().timed(source()):
        break
    assert closed == [True]
