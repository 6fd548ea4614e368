"""What holds a step back, from made-up measurements, and one real step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trueneg.runs.bottleneck import Measured, bottlenecks

RATES = {"fp32": 50e9, "bf16": 200e9}
HEALTHY = Measured(
    device="cpu",
    threads=2,
    cores=2,
    precision="bf16",
    rows=32,
    accumulation=1,
    positions=4096,
    flops=200e9,
    step=1600,
    one_row=50,
    read=4,
    host=None,
    matrix_rate=RATES,
    peak=0,
    fill=0.99,
    packed_fill=0.99,
    memory=1e9,
    memory_limit=8e9,
)
"""Bound by its matrix products: 125 of 200 GFLOP/s."""

GPU = replace(HEALTHY, device="NVIDIA H100 80GB HBM3", peak=989e12, matrix_rate={"fp32": 50e12, "bf16": 700e12})
GPU = replace(GPU, flops=6e12, step=20.0, one_row=19.0, host=6.0)


def places(measured: Measured) -> list[str]:
    return [found.place for found in bottlenecks(measured)]


def test_a_healthy_step_is_bound_by_its_products() -> None:
    (only,) = bottlenecks(HEALTHY)
    assert (only.place, only.option) == ("arithmetic", "")
    assert str(only).startswith("125 GFLOP/s are 62 % of what large matrix products in bf16 reach here")
    assert HEALTHY.mfu == pytest.approx(0.625)


def test_padding_is_named_with_what_packing_gives() -> None:
    padded = replace(HEALTHY, fill=0.755, packed_fill=0.998)
    assert places(padded) == ["padding", "arithmetic"]
    assert str(bottlenecks(padded)[0]) == "rows are 76 % full: --pack gives at most +32% useful tokens"
    tried = replace(padded, tried={"--pack": 1.25})
    assert str(bottlenecks(tried)[0]) == "rows are 76 % full: --pack gives +25% useful tokens"
    # What was tried and gained nothing is not recommended, whatever arithmetic says.
    assert places(replace(padded, tried={"--pack": 1.01})) == ["arithmetic"]


def test_a_slow_precision_is_named_by_what_its_products_take() -> None:
    slow = replace(HEALTHY, precision="fp32", step=4000.0, one_row=130.0)
    first = bottlenecks(slow)[0]
    assert (first.place, first.option, first.is_measured) == ("precision", "--precision bf16", False)
    assert first.gain == pytest.approx(4)  # all of the time is in products here, which are 4 times as fast
    half = bottlenecks(replace(slow, step=8000.0, one_row=260.0))[0]
    assert half.gain == pytest.approx(1 / (0.5 + 0.5 / 4))
    emulated = replace(HEALTHY, matrix_rate={"fp32": 250e9, "bf16": 125e9})
    assert bottlenecks(emulated)[0].option == "--precision fp32"


def test_data_that_is_read_more_slowly_than_computed() -> None:
    waiting = replace(HEALTHY, read=4800.0)
    first = bottlenecks(waiting)[0]
    assert (first.place, first.gain) == ("data", 3)
    assert "reading a step's rows takes 4800 ms, computing it 1600" in str(first)


def test_idle_cores() -> None:
    first = bottlenecks(replace(HEALTHY, threads=1, cores=8))[0]
    assert (first.place, first.option) == ("threads", "OMP_NUM_THREADS=8")
    assert bottlenecks(replace(HEALTHY, threads=8, cores=4))[0].option == "OMP_NUM_THREADS=4"
    assert "threads" not in places(replace(GPU, threads=1, cores=8))


def test_what_does_not_grow_with_the_rows_is_solved_for() -> None:
    # 400 ms are fixed, each of 32 rows takes 50.
    small = replace(HEALTHY, step=400 + 32 * 50, one_row=450.0)
    assert small.fixed == pytest.approx(0.2)
    first = bottlenecks(small)[0]
    assert (first.place, first.option, first.gain) == ("launches", "train.compile=true", pytest.approx(1.25))
    assert bottlenecks(replace(small, accumulation=4))[0].option == "train.accumulation=2"
    assert replace(HEALTHY, rows=1).fixed == 1
    # A compiler has done what it can; on a GPU launches are left to be recorded.
    assert places(replace(small, is_compiled=True)) == ["arithmetic"]
    (graphs, *_) = bottlenecks(replace(GPU, host=19.5, is_compiled=True))
    assert graphs.option == "train.cuda_graphs=true"


def test_a_gpu_that_waits_for_its_host() -> None:
    bound = replace(GPU, host=19.5)
    first = bottlenecks(bound)[0]
    assert (first.place, first.option) == ("launches", "train.compile=true")
    assert "the host hands out work for 19.5 of a step's 20.0 ms" in str(first)
    assert "launches" not in places(GPU)  # it is handed its work in 6 of 20 ms
    assert GPU.mfu == pytest.approx(6e12 / 20e-3 / 989e12)
    assert str(bottlenecks(replace(bound, tried={"train.compile=true": 2.5}))[0]).endswith("gives +150% useful tokens")


def test_a_gpu_whose_time_goes_between_its_products() -> None:
    assert places(replace(GPU, one_row=1.0)) == ["traffic"]
    tried = bottlenecks(replace(GPU, one_row=1.0, tried={"train.compile=true": 1.5}))
    assert [(one.place, one.option) for one in tried] == [("traffic", "train.compile=true")]


def test_memory_that_is_nearly_used_up() -> None:
    (full, _) = bottlenecks(replace(HEALTHY, memory=7.5e9))
    assert full.place == "memory"
    assert "train.accumulation=2 or train.gradient_checkpointing=true gives less memory" in str(full)
    assert places(replace(HEALTHY, memory=7.5e9, memory_limit=0)) == ["arithmetic"]


def test_what_gains_most_comes_first() -> None:
    worse = replace(HEALTHY, fill=0.5, packed_fill=1.0, threads=1, cores=4, read=4800.0, memory=8e9)
    assert places(worse) == ["threads", "data", "padding", "memory", "arithmetic"]
