"""Tokenizers, rows and encoders of two layers of 32, small enough to check every number."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForMaskedLM, PreTrainedModel, PreTrainedTokenizerFast

from trueneg.config.options import ModelConfig
from trueneg.corruption.rows import Rows
from trueneg.models.configurations import hf_config

ARCHITECTURES = (
    "bert",
    "roberta",
    "electra",
    "deberta-v2",
    "modernbert",
    "deberta",
    "distilbert",
    "xlm-roberta",
    "albert",
    "mpnet",
    "camembert",
)
MAIN = ARCHITECTURES[:5]
DEBERTA = ("deberta", "deberta-v2")
EAGER = (*DEBERTA, "mpnet")
"""Without a fused attention in transformers."""
TEXT = ["the river sang in the morning", "a painter of the old stone house", "green light over the mountain wind"]
WORDS: Sequence[str] = sorted({word for text in TEXT for word in text.split()})


def make_tokenizer(extra: tuple[str, ...] = (), words: Sequence[str] = WORDS) -> PreTrainedTokenizerFast:
    """A WordPiece tokenizer whose padding has id 1, as RoBERTa's and MPNet's does; ``extra`` words come last."""
    pieces = [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    entries = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *"abcdefghijklmnopqrstuvwxyz", *pieces]
    vocabulary = {word: index for index, word in enumerate(dict.fromkeys([*entries, *words]))}
    backend = Tokenizer(models.WordPiece(vocabulary, unk_token="<unk>"))
    backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    backend.add_tokens([AddedToken(word, single_word=True) for word in extra])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        cls_token="<s>",
        bos_token="<s>",
        pad_token="<pad>",
        sep_token="</s>",
        eos_token="</s>",
        unk_token="<unk>",
        mask_token="<mask>",
        model_input_names=["input_ids", "attention_mask"],
    )


def tiny(architecture: str = "electra", **changes: Any) -> ModelConfig:
    """Sizes of a model that costs nothing."""
    sizes: dict[str, Any] = {
        "architecture": architecture,
        "num_layers": 2,
        "hidden_size": 32,
        "num_heads": 2,
        "intermediate_size": 48,
        "embedding_size": 16,
        "max_positions": 48,
        "dropout": 0.0,
        "generator_width": 0.5,
    }
    return ModelConfig(**sizes | changes)


def make_masked_lm(architecture: str, attention: str = "sdpa", **settings: Any) -> PreTrainedModel:
    """transformers' own masked-LM model; ``settings`` are changed in its configuration."""
    made = hf_config(tiny(architecture), make_tokenizer()).to_dict() | settings
    kind = "eager" if architecture in EAGER else attention
    made.pop("model_type")
    config = AutoConfig.for_model(architecture, **made)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return stirred(AutoModelForMaskedLM.from_config(config, attn_implementation=kind).eval())


@torch.no_grad()
def stirred(model: Any, seed: int = 0) -> Any:
    """The model with weights far from their start, so that every part of it shows in what it computes."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter += 0.3 * torch.randn(parameter.shape, generator=generator)
    return model


def make_rows(*pieces: tuple[int, ...], length: int, seed: int = 0) -> tuple[Tensor, Rows]:
    """Random ids, one row for each tuple of document lengths, padded with id 1 to ``length``."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, len(make_tokenizer()), (len(pieces), length), generator=generator)
    segments = torch.zeros_like(ids)
    for row, sizes in enumerate(pieces):
        start = 0
        for number, size in enumerate(sizes, start=1):
            segments[row, start : start + size] = number
            start += size
    ids = ids.masked_fill(segments == 0, 1)
    no = torch.zeros_like(ids, dtype=torch.bool)
    rows = Rows(
        input_ids=ids,
        segments=segments,
        is_special=segments == 0,
        is_word_start=~no,
        is_whole_word=~no,
        keys=torch.arange(len(pieces)),
        is_full=all(sizes == (length,) for sizes in pieces),
        is_packed=any(len(sizes) > 1 for sizes in pieces),
    )
    return ids, rows


def save_checkpoint(model: PreTrainedModel, folder: Path, tokenizer: PreTrainedTokenizerFast | None = None) -> str:
    """Write a Hugging Face folder, as anyone would have made it."""
    model.save_pretrained(folder)
    (make_tokenizer() if tokenizer is None else tokenizer).save_pretrained(folder)
    return str(folder)


def same_state(left: nn.Module, right: nn.Module) -> bool:
    """Whether two modules hold the same numbers under the same names."""
    ours, theirs = left.state_dict(), right.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)
