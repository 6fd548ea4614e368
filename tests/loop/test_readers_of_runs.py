"""Models that a run reads with and does not train: they must be able to read its rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_runs import ENTRIES, MakeConfig
from transformers import BertConfig, BertForMaskedLM

from tiny_tokenizers import SPECIAL
from trueneg.errors import ConfigError
from trueneg.runs.pretraining import pretrain
from trueneg.tokenizer import load_tokenizer


@pytest.mark.parametrize("option", ["objective.masking.hard_for={}", "objective.smoothing.source=teacher:{}"])
def test_a_reader_with_fewer_positions_than_a_row_is_refused_before_anything_is_written(
    option: str, config_of: MakeConfig, tokenizer_folder: Path, tmp_path: Path
) -> None:
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    vocab_size = len(SPECIAL) + len(ENTRIES)
    reader = BertForMaskedLM(BertConfig(vocab_size=vocab_size, max_position_embeddings=16, **sizes))
    reader.save_pretrained(tmp_path / "short")
    load_tokenizer(str(tokenizer_folder)).save_pretrained(tmp_path / "short")
    config = config_of("mlm", option.format(tmp_path / "short"))
    assert config.corpus.length > 16
    with pytest.raises(ConfigError, match=r"corpus\.length=\d+: '.*short' has only 16 positions"):
        pretrain(config, tmp_path / "run", quiet=True)
    assert not list((tmp_path / "run").glob("metrics.jsonl"))
