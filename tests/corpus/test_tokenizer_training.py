"""Tokenizers that are trained on a corpus's sources, or extended: see also tests/test_tokenizer.py."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trueneg.corpus import tokenizer_training
from trueneg.corpus.tokenizer_training import extend_tokenizer, train_tokenizer
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
    assert tokenizer_training._alphabet(backend, passages) == letters
    assert calls == [len("".join(passages))]
    monkeypatch.setattr(tokenizer_training, "_COUNTED_AT_ONCE", 1000)
    monkeypatch.setattr(tokenizer_training, "_LARGEST_ALPHABET", 3)
    frequent = Counter("".join(passages).replace(" ", ""))
    assert tokenizer_training._alphabet(backend, iter(passages)) == sorted(
        sorted(frequent, key=lambda letter: (-frequent[letter], letter))[:3]
    )
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
