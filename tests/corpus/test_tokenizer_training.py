"""Tokenizers that are trained on a corpus's sources, or extended: see also tests/test_tokenizer.py."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trueneg.corpus import tokenizer_training
from trueneg.corpus.tokenizer_training import extend_tokenizer, train_tokenizer
from trueneg.errors import TruenegWarning
from trueneg.tokenizer import fingerprint, load_tokenizer


def test_short_passages_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    passages = [*("river stone", "", "caf\u00e9 \U0001f600") * 400]
    backend = tokenizer_training._wordpiece(lowercase=False)
    calls, unique = [], np.unique

    def spy(codes: Any, **options: Any) -> Any:
        calls.append(len(codes))
        return unique(codes, **options)

    monkeypatch.setattr(np, "unique", spy)
    letters = sorted(Counter("".join(passages).replace(" ", "")))
    assert tokenizer_training._alphabet(backend, passages, 100) == (letters, 0.0)
    assert calls == [len("".join(passages))]
    monkeypatch.setattr(tokenizer_training, "_COUNTED_AT_ONCE", 1000)
    monkeypatch.setattr(tokenizer_training, "_LARGEST_ALPHABET", 3)
    frequent = Counter("".join(passages).replace(" ", ""))
    chosen = sorted(frequent, key=lambda letter: (-frequent[letter], letter))[:3]
    found, left_out = tokenizer_training._alphabet(backend, iter(passages), 6)
    assert found == sorted(chosen)
    assert left_out == pytest.approx(1 - sum(frequent[letter] for letter in chosen) / frequent.total())
    assert len(calls) > 5 and max(calls[1:]) < 1020


def test_a_tokenizer_is_written_into_the_working_folder(
    text_file: Path, wordpiece: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("trained", "extended"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        if name == "trained":
            made = fingerprint(train_tokenizer([str(text_file)], ".", vocab_size=110))
        else:
            assert extend_tokenizer(str(wordpiece), ["zygote"], ".") == (1, [])
            made = fingerprint(load_tokenizer("."))
        assert Path("tokenizer.json").samefile(tmp_path / name / "tokenizer.json")  # the folder is the same one
        assert fingerprint(load_tokenizer(tmp_path / name)) == made
    assert sorted(path.name for path in tmp_path.iterdir()) == ["extended", "trained"]


@pytest.fixture
def chinese(tmp_path: Path) -> tuple[Path, str]:
    """A text of 3,000 ideographs, some rarer than others, and a little English."""
    draw = np.random.default_rng(0)
    weights = 1 / np.arange(10, 3010)
    codes = draw.choice(np.arange(0x4E00, 0x4E00 + 3000), 60_000, p=weights / weights.sum())
    text = "".join(chr(code) + (" word" if number % 50 == 0 else "") for number, code in enumerate(codes))
    path = tmp_path / "chinese.txt"
    path.write_text("\n\n".join(text[at : at + 300] for at in range(0, len(text), 300)), encoding="utf-8")
    return path, text


def test_ideographs_have_room_in_a_large_vocabulary(chinese: tuple[Path, str], tmp_path: Path) -> None:
    path, text = chinese
    with pytest.warns(TruenegWarning, match="no more pieces occur often enough"):
        tokenizer = train_tokenizer([str(path)], tmp_path / "large", vocab_size=8192)
    assert tokenizer.unk_token_id not in tokenizer(text)["input_ids"]
    with pytest.warns(TruenegWarning) as told:
        tokenizer = train_tokenizer([str(path)], tmp_path / "small", vocab_size=1500)
    assert re.search(r"the 1,000 most frequent characters; [\d.]+% of the text are others", str(told[0].message))
    assert "1,500: no more pieces occur often enough; give a smaller --vocab-size" in str(told[1].message)
    unknown = tokenizer(text)["input_ids"].count(tokenizer.unk_token_id)
    assert 0 < unknown < 0.2 * len(text)


def test_words_without_spaces_between_them_can_be_added(chinese: tuple[Path, str], tmp_path: Path) -> None:
    path, text = chinese
    with pytest.warns(TruenegWarning):
        before = train_tokenizer([str(path)], tmp_path / "tok", vocab_size=8192)
    word = text[100:103]
    assert extend_tokenizer(tmp_path / "tok", [word], tmp_path / "more") == (1, [])
    after = load_tokenizer(tmp_path / "more")
    assert after.encode(f"a {word}, b", add_special_tokens=False).count(len(before)) == 1
