"""A calibration's file is a detector."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_learned import ASKED, SHARES
from tiny_encoders import WORDNET, wordpiece

from trueneg.config.objective_options import CorrectionConfig
from trueneg.detectors import make_detector, make_scorer
from trueneg.detectors.combination import CombinedScorer
from trueneg.detectors.online import OnlineDetector
from trueneg.detectors.scorers.calibrated import KIND
from trueneg.detectors.scorers.learned import LearnedScorer
from trueneg.detectors.specification import Resources
from trueneg.errors import ConfigError
from trueneg.evaluation.detectors.calibration import Calibration, calibrate
from trueneg.evaluation.detectors.swords import Item

ITEMS = [
    Item(s, float(share), f"t{n % 4}", f"s{n}", s.target, s.substitute)
    for n, (s, share) in enumerate(zip(ASKED * 3, np.tile(SHARES, 3), strict=True))
]


def write(path: Path, **content: Any) -> str:
    path.write_text(json.dumps({"kind": KIND, "detector": "lexical", "threshold": 0.3, **content}))
    return str(path)


def test_what_was_learned_comes_back(bert: str, tmp_path: Path, resources: Resources) -> None:
    specification, path = f"learned:{bert}", tmp_path / "det.json"
    fresh = make_scorer(specification, resources)
    assert isinstance(fresh, LearnedScorer)
    calibration = calibrate(ITEMS, fresh, precision=None, folds=2, detector=specification)
    calibration.save(path)
    assert Calibration.load(path).parameters == calibration.parameters
    scorer = make_scorer(str(path), resources)
    assert isinstance(scorer, LearnedScorer)
    assert scorer.parameters() == calibration.parameters and scorer.threshold == calibration.threshold
    wanted = fresh.fit([item.substitution for item in ITEMS], np.array([item.acceptability for item in ITEMS]))
    np.testing.assert_allclose(scorer.scores(ASKED), wanted.scores(ASKED), atol=0.02)  # bfloat16
    about = scorer.provenance
    assert (about["calibration"], about["calibration.level"]) == ("det.json", "most")
    assert about["threshold"] == str(calibration.threshold)


def test_its_threshold_holds_in_combinations(bert: str, tmp_path: Path, resources: Resources) -> None:
    path = write(tmp_path / "det.json", detector=f"contextual:{bert}", threshold=0.81)
    assert make_scorer(path, resources).threshold == 0.81
    combined = make_scorer(f"{path} & !antonym", resources)
    assert isinstance(combined, CombinedScorer) and combined.scorers[0].threshold == 0.81
    assert make_scorer(f"calibrated:{path}@0.9", resources).threshold == 0.9


def test_it_serves_training(bert: str, tmp_path: Path) -> None:
    path = write(tmp_path / "det.json", detector=f"contextual:{bert} & !antonym", threshold=0.7)
    detector = make_detector(CorrectionConfig(detector=path, wordnet=str(WORDNET)), wordpiece())
    assert isinstance(detector, OnlineDetector) and detector.scorer.threshold == 0.7
    assert detector.provenance["calibration"] == "det.json"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"kind": "something"}, "is no calibrated detector: make one with 'trueneg detect calibrate'"),
        ({"detector": None}, r"lacks a name, a threshold in \[0, 1\] or finite parameters"),
        ({"threshold": None}, "lacks a name, a threshold"),
        ({"threshold": 1.5}, "lacks a name, a threshold"),
        ({"threshold": float("nan")}, "lacks a name, a threshold"),
        ({"parameters": [1.0]}, "lacks a name, a threshold"),
        ({"parameters": {"constant": float("inf")}}, "lacks a name, a threshold"),
        ({"parameters": {"constant": 10**400}}, "lacks a name, a threshold"),
        ({"parameters": {"constant": 1.0}}, "'lexical' has nothing to learn, yet it has parameters"),
        ({"detector": "lexcial"}, "unknown detector 'lexcial'"),
    ],
)
def test_files_that_are_none(content: dict[str, Any], message: str, tmp_path: Path, resources: Resources) -> None:
    path = write(tmp_path / "det.json", **content)
    with pytest.raises(ConfigError, match=message):
        make_scorer(path, resources)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "text.json").write_text("not JSON")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe")
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "deep.json").write_text('{"a":' + "[" * 100_000)
    for name in ("text", "bytes", "list", "deep"):
        with pytest.raises(ConfigError, match=rf"{name}\.json' is damaged: .*detect calibrate"):
            make_scorer(str(tmp_path / f"{name}.json"))
    with pytest.raises(ConfigError, match=r"cannot read '.*nowhere\.json' \(No such file"):
        make_scorer(str(tmp_path / "nowhere.json"))


def test_a_calibration_of_itself(tmp_path: Path) -> None:
    path = tmp_path / "det.json"
    write(path, detector=f"{path} | lexical")
    with pytest.raises(ConfigError, match="is calibrated from itself"):
        make_scorer(str(path))
    write(path, detector=f"lexical & {tmp_path / 'other.json'}")
    write(tmp_path / "other.json", detector=str(path))
    with pytest.raises(ConfigError, match="is calibrated from itself"):
        make_scorer(str(path))
