"""What ``diagnose`` says about machines that lack something."""

from __future__ import annotations

import os
import shutil
from importlib import metadata
from pathlib import Path

import pytest
import torch

from trueneg.runs.doctor import Finding, diagnose

REQUIRES = ["torch>=2.11", "transformers>=5", "numpy", 'wn>=1.1; extra == "wn"', 'pytest>=8; extra == "dev"']


@pytest.fixture(autouse=True)
def plain_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine on which all is well: each test takes one thing away."""
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE", "TOKENIZERS_PARALLELISM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    wordnet = tmp_path / "wordnet"
    wordnet.mkdir()
    for part in ("noun", "verb", "adj", "adv"):
        (wordnet / f"index.{part}").write_text(f"  1 licence\nfirst{part} n 1 0 1 0 00000010\n")
        (wordnet / f"data.{part}").write_text("  1 licence\n")
        (wordnet / f"{part}.exc").write_text("")
    monkeypatch.setenv("WNSEARCHDIR", str(wordnet))
    monkeypatch.setenv("TRUENEG_CACHE", str(tmp_path / "cache" / "of" / "mine"))
    versions = {"torch": "2.13.0+cpu", "transformers": "5.23.0", "numpy": "2.4.6", "pytest": "9.2.0"}
    use_packages(monkeypatch, versions)


def use_packages(monkeypatch: pytest.MonkeyPatch, versions: dict[str, str]) -> None:
    def version(name: str) -> str:
        if name not in versions:
            raise metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(metadata, "requires", lambda name: REQUIRES)
    monkeypatch.setattr(metadata, "version", version)


def finding(name: str) -> Finding:
    (found,) = [each for each in diagnose() if each.name == name]
    return found


def test_names_are_distinct_and_all_that_is_not_well_has_a_remedy() -> None:
    findings = diagnose()
    assert len({each.name for each in findings}) == len(findings)
    assert all("\n" not in each.what + each.remedy and each.what for each in findings)
    assert all(each.remedy for each in findings if each.level != "ok")


def test_packages_in_range() -> None:
    assert finding("packages") == Finding(
        "packages", "ok", "torch 2.13.0+cpu, transformers 5.23.0 and 1 more, all in range"
    )


def test_a_package_out_of_range_and_one_that_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    use_packages(monkeypatch, {"torch": "2.13.0", "transformers": "4.57.1"})
    transformers, numpy = finding("transformers"), finding("numpy")
    assert (transformers.level, transformers.remedy) == ("bad", "pip install 'transformers>=5'")
    assert transformers.what == "4.57.1, but >=5 is needed"
    assert (numpy.level, numpy.what) == ("bad", "not installed, but any version is needed")


def test_without_torch_the_questions_to_torch_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    use_packages(monkeypatch, {"transformers": "5.23.0", "numpy": "2"})
    assert finding("torch").level == "bad"
    assert not {"accelerator", "bfloat16", "threads"} & {each.name for each in diagnose()}


def test_a_package_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def requires(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", requires)
    assert finding("packages").level == "warn"


def test_extras_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = metadata.metadata("pytest")
    del fields["Provides-Extra"]
    for extra in ("wn", "dev"):
        fields["Provides-Extra"] = extra
    monkeypatch.setattr(metadata, "metadata", lambda name: fields)
    assert finding("extras").what == "installed: dev; not installed: wn"


def test_wordnet_is_counted() -> None:
    assert finding("wordnet").what == f"4 entries in {os.environ['WNSEARCHDIR']}"


def test_wordnet_that_is_damaged_or_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    Path(os.environ["WNSEARCHDIR"], "verb.exc").unlink()
    assert finding("wordnet").level == "bad" and "verb.exc" in finding("wordnet").what


def test_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(4)), raising=False)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    assert finding("threads") == Finding("threads", "ok", "torch uses 4 of 4 cores")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    assert finding("threads").remedy == "set OMP_NUM_THREADS=4"
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert finding("threads").level == "ok"
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert finding("threads").level == "warn"


@pytest.mark.parametrize(
    ("capabilities", "level"),
    [({"avx512_bf16": True}, "ok"), ({"bf16": True}, "ok"), ({"avx512_bf16": False}, "warn"), ({}, "warn")],
)
def test_bfloat16_on_the_cpu(monkeypatch: pytest.MonkeyPatch, capabilities: dict[str, bool], level: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    assert finding("bfloat16").level == level
    monkeypatch.delattr(torch.cpu, "get_capabilities")  # as in an older torch
    assert finding("bfloat16").level == "warn"


def test_a_gpu_that_torch_does_not_see(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert finding("accelerator").level == "ok"
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(torch.version, "cuda", None)
    assert finding("accelerator").level == "warn" and "built without CUDA" in finding("accelerator").what


def test_a_gpu_that_torch_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    class Properties:
        name, total_memory = "Big GPU", 80 * 2**30

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: Properties)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: including_emulation)
    assert finding("accelerator").what.endswith("Big GPU (80 GiB), Big GPU (80 GiB)")
    assert (finding("bfloat16").level, finding("bfloat16").what.split(",")[0]) == (
        "warn",
        "emulated on this GPU",
    )


def test_tokenizers_and_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (finding("tokenizers").level, finding("hub").what.split(":")[0]) == ("ok", "online")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert finding("tokenizers").level == "warn"
    assert finding("hub").what.startswith("offline (HF_HUB_OFFLINE)")
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    assert finding("hub").what.startswith("online")


def test_a_cache_below_a_file_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert finding("cache").level == "ok" and not (tmp_path / "cache").exists()
    (tmp_path / "file").touch()
    monkeypatch.setenv("TRUENEG_CACHE", str(tmp_path / "file" / "cache"))
    assert finding("cache").level == "bad" and "TRUENEG_CACHE" in finding("cache").remedy


def test_a_disk_that_is_nearly_full(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage._replace(free=int(3e9)))
    (disk,) = [each for each in diagnose(tmp_path / "run") if each.name == "disk"]
    assert (disk.level, disk.what) == ("warn", f"3 GB free in {tmp_path / 'run'}")
