"""What a run is expected to take, against what a process takes, and against arithmetic."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from trueneg.config.codec import override
from trueneg.config.devices import find_gpu
from trueneg.config.options import PretrainConfig, StageConfig
from trueneg.config.presets import preset
from trueneg.config.stages import with_stages
from trueneg.errors import ConfigError
from trueneg.models.loading import count_parameters
from trueneg.objectives.base import TrainingModule
from trueneg.runs import estimate as module
from trueneg.runs.building import build
from trueneg.runs.estimate import LEAST_MORE, MOST_MORE, Estimate, estimate, expect
from trueneg.terminal.progress import duration

TINY = preset("electra-tiny")
MEASURE = """
import gc, resource, torch
from trueneg.config.codec import override
from trueneg.config.presets import preset
from trueneg.runs.estimate import _rows, _tokenizer
from trueneg.runs.building import build
from trueneg.training.step import Run, train_step
config, tokenizer = override(preset("electra-mini"), SETTINGS), _tokenizer(30522)
rows = _rows(32, 128, tokenizer)
build(override(config, ["num_layers=1"]), tokenizer)
gc.collect()
before = int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
run = Run.new(*build(config, tokenizer), config.optimizer, config.train, torch.device("cpu"))
for _ in range(2):
    train_step(run, [rows])
# Not ru_maxrss, which a process inherits from the one that started it.
(peak,) = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(int(peak) * 1024 - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_process_takes_as_much(precision: str) -> None:
    settings = [f"train.precision={precision}"]
    script = MEASURE.replace("SETTINGS", str(settings))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    expected = estimate(override(preset("electra-mini"), settings)).memory
    more = int(done.stdout) / expected - 1
    assert LEAST_MORE - 0.1 < more < MOST_MORE + 0.1


def test_weights_gradients_and_optimizer_by_arithmetic() -> None:
    found = estimate(TINY, vocab_size=2000)
    whole = TrainingModule(*build(TINY, module._tokenizer(2000)))
    num = count_parameters(whole)
    assert found.gradients == 4 * num
    assert found.weights == 4 * num + sum(buffer.nbytes for buffer in whole.buffers())
    assert found.optimizer == pytest.approx(8 * num, rel=0.01)  # two moments, and a count each
    assert found.logits == 4 * 8 * round(0.15 * 30) * 2000
    assert found.memory == found.weights + found.gradients + found.optimizer + found.activations


def test_activations_grow_with_the_rows_and_shrink_with_cuts_and_checkpoints() -> None:
    def activations(*settings: str) -> float:
        return estimate(override(TINY, ["train.batch_size=64", *settings]), vocab_size=500).activations

    whole = activations()
    assert activations("train.batch_size=128") == pytest.approx(2 * whole, rel=0.1)
    assert activations("train.accumulation=4") == pytest.approx(whole / 4, rel=0.2)
    assert activations("train.gradient_checkpointing=true") < 0.9 * whole


@pytest.mark.parametrize("name", ["bert-base", "modernbert-base", "cline-roberta-base", "tn-electra-base"])
def test_every_kind_of_preset_is_estimated_without_its_checkpoint(name: str) -> None:
    smaller = ["num_layers=1", "hidden_size=32", "num_heads=2", "intermediate_size=64", "batch_size=2", "length=32"]
    config = preset(name)
    sizes = replace(config, model=replace(config.model, start_from="", generator_from=""))
    assert estimate(override(sizes, [*smaller, "corpus.pack=false"]), on_gpu=True, vocab_size=300).activations > 0


def test_time_by_arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    made_up = Estimate(1e9, 1e9, 2e9, 4e9, 0, 1e14, 64)
    monkeypatch.setattr(module, "estimate", lambda config, on_gpu: made_up)
    config = override(preset("bert-base"), ["train.steps=1000"])
    _, (memory, time) = expect(config, "a100")
    assert time.what.startswith(f"about 0:13:21 on one: 1,000 steps of {1e14 / (0.4 * 312e12) * 1000:.0f} ms")
    assert memory.level == "ok" and "about 7.45 of 37.25 GiB on A100, micro-batches of 64" in memory.what


def test_what_does_not_fit_names_what_does(monkeypatch: pytest.MonkeyPatch) -> None:
    made_up = Estimate(1e9, 1e9, 2e9, 60e9, 0, 1e14, 64)
    monkeypatch.setattr(module, "estimate", lambda config, on_gpu: made_up)
    _, (memory, _) = expect(preset("bert-base"), "L4")  # 24 GB, of which a fifth is left: 4 + 60 / 4 fit in 20
    assert memory.level == "bad"
    assert memory.remedy == "--set train.accumulation=4 or --set train.gradient_checkpointing=true"
    heavy = replace(made_up, weights=30e9)
    monkeypatch.setattr(module, "estimate", lambda config, on_gpu: heavy)
    _, (memory, _) = expect(override(preset("bert-base"), ["train.gradient_checkpointing=true"]), "L4")
    assert (memory.level, memory.remedy) == ("bad", "a smaller model, shorter rows, or another device")


def test_the_device_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "peak_of", lambda device, precision: module.Peak(1e11, "made up"))
    found, (memory, time) = expect(TINY)
    assert "on this CPU" in memory.what and "5% of 0.1 TFLOP/s, made up" in time.what
    assert found.seconds("cpu", 1e11, 32) == pytest.approx(found.flops / (1e11 * 0.4 / 8))


@pytest.mark.parametrize(
    ("on", "said"), [("H1000", "did you mean 'H100'"), ("V100", "V100 has no bfloat16: add --set train.precision=fp16")]
)
def test_gpus_that_are_not_known_or_cannot(on: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        expect(override(preset("electra-small"), ["train.precision=bf16"]), on)


def test_an_unknown_gpu_at_hand_has_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = module.Peak(0.0, "a peak that is not known: 'X' is in no table of bf16 rates; mfu is left out")
    monkeypatch.setattr(module, "peak_of", lambda device, precision: unknown)
    monkeypatch.setattr(module, "estimate", lambda config, on_gpu: Estimate(1, 1, 2, 4, 0, 1, 8))
    _, (_, time) = expect(TINY)
    assert time.level == "warn" and "cannot be told" in time.what


def test_stages_are_estimated_each_and_timed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    def made_up(config: PretrainConfig, on_gpu: bool) -> Estimate:
        return Estimate(1e9, 1e9, 2e9, 60e9 if config.corpus.length == 256 else 4e9, 0, 1e14, 64)

    monkeypatch.setattr(module, "estimate", made_up)
    longer = StageConfig("longer", 500, ("corpus.length=256", "train.batch_size=64"))
    config = with_stages(preset("bert-base"), [StageConfig("first", 1000), longer])
    found, (first, second, time) = expect(config, "L4")
    assert found.activations == 60e9
    assert (first.name, first.level, second.name, second.level) == ("memory, first", "ok", "memory, longer", "bad")
    assert second.remedy.startswith("--set stages.longer.train.accumulation=4 or ")
    gpu = find_gpu("L4")
    assert gpu is not None
    step = 1e14 / (0.4 * gpu.bf16)
    assert time.what.startswith(f"about {duration(1500 * step)} on one: first 1,000 steps of {1000 * step:,.0f} ms")
    assert f"; longer 500 steps of {1000 * step:,.0f} ms, {64 * 256 / step:,.0f} positions/s" in time.what


@pytest.mark.parametrize("source", ["average", "teacher:nowhere", "self"])
def test_smoothing_by_a_model_is_estimated(source: str) -> None:
    plain = estimate(TINY, vocab_size=500)
    smoothed = estimate(override(TINY, [f"objective.smoothing.source={source}"]), vocab_size=500)
    more = smoothed.weights - plain.weights
    assert more == 0 if source == "self" else 0 < more < plain.weights


@pytest.mark.parametrize("optimizer", ["adamw", "stableadamw", "muon"])
def test_float16_is_estimated_with_every_optimizer(optimizer: str) -> None:
    """Of which some read on the host whether a gradient overflowed: there are no values here."""
    config = override(TINY, [f"optimizer.name={optimizer}"])
    half, whole = (estimate(override(config, [f"train.precision={name}"]), vocab_size=500) for name in ("fp16", "fp32"))
    assert half.optimizer == whole.optimizer > 0 and half.activations > 0
