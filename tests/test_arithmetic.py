"""In which precision a device computes, and how fast."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from trueneg import arithmetic
from trueneg.arithmetic import has_bfloat16, is_bfloat16_faster, matrix_rate, reading_autocast, reading_tokens

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


@pytest.mark.parametrize(
    ("capabilities", "is_native"),
    [
        ({"avx512_bf16": True}, True),
        ({"amx_bf16": True}, True),
        ({"avx512_bf16": False, "avx2": True}, False),
        ({}, None),
    ],
)
def test_a_cpu_has_what_torch_says(
    capabilities: dict[str, bool], is_native: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    assert has_bfloat16(CPU) is is_native


@pytest.mark.parametrize(("rate", "is_faster"), [(0.5, False), (1.0, False), (1.2, False), (1.3, True), (2.0, True)])
def test_a_cpu_must_be_faster_in_bfloat16_by_measurement(
    rate: float, is_faster: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arithmetic, "has_bfloat16", lambda device: True)
    monkeypatch.setattr(
        arithmetic, "matrix_rate", lambda device, precision: {"fp32": 1e9, "bf16": rate * 1e9}[precision]
    )
    assert is_bfloat16_faster(CPU) is is_faster
    with reading_autocast(CPU):
        assert (torch.eye(2) @ torch.eye(2)).dtype == (torch.bfloat16 if is_faster else torch.float32)


@pytest.mark.parametrize("is_native", [True, False, None])
def test_nothing_is_measured_where_the_instructions_decide(
    is_native: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arithmetic, "has_bfloat16", lambda device: is_native)
    monkeypatch.setattr(arithmetic, "matrix_rate", lambda device, precision: pytest.fail("measured"))
    assert is_bfloat16_faster(GPU) is is_native
    assert is_native or is_bfloat16_faster(CPU) is is_native


def test_the_rate_of_matrix_products_is_that_of_the_fastest(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([0, 9, 10, 10.5, 20, 20.25, 30, 31])  # the first product counts for nothing
    clock = SimpleNamespace(perf_counter=lambda: next(readings), process_time=lambda: next(readings))
    monkeypatch.setattr(arithmetic, "time", clock)
    monkeypatch.setattr(arithmetic, "_MOST_TURNS", 3)
    monkeypatch.setattr(arithmetic, "_LEAST_SECONDS", 100)
    matrix_rate.cache_clear()
    assert matrix_rate(torch.device("cpu"), "fp32") == 2 * 1024**3 / 0.25
    matrix_rate.cache_clear()


@pytest.mark.parametrize(
    ("device", "num_threads", "tokens"), [(CPU, 1, 1024), (CPU, 4, 4096), (CPU, 64, 16_384), (GPU, 1, 16_384)]
)
def test_a_cpu_reads_as_much_at_once_as_its_caches_hold(
    device: torch.device, num_threads: int, tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: num_threads)
    assert reading_tokens(device, 16_384) == tokens
