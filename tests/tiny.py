"""Tiny things that tests are made of: a vocabulary of 300, rows of it, encoders of two layers of 32."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModelForMaskedLM,
    AutoModelForPreTraining,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

from tiny_tokenizers import SPECIAL, numbered, wrapped
from trueneg.config.objective_options import MaskingConfig
from trueneg.corruption.keyed import example_keys
from trueneg.corruption.masking import Masking
from trueneg.corruption.rows import MaskedRows, Rows
from trueneg.detectors.base import Detector
from trueneg.lexicon.table import LookupTable
from trueneg.models.backbone import MaskedLanguageModel
from trueneg.models.electra import Discriminator, ElectraPair

PAD, UNKNOWN, START, END, MASK = range(5)
SPECIAL_IDS = list(range(5))
VOCAB_SIZE = 300  # more than one block of the sampler, and not a whole number of them
ARCHITECTURES = ["bert", "roberta", "electra", "modernbert", "deberta-v2"]


def make_tokenizer(vocab_size: int = VOCAB_SIZE) -> PreTrainedTokenizerFast:
    words = [*SPECIAL, *(f"word{number}" for number in range(vocab_size - len(SPECIAL)))]
    backend = Tokenizer(models.WordLevel(numbered(words), unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    return wrapped(backend)


def make_rows(pieces: Sequence[Sequence[int]], length: int, seed: int = 0, first_position: int = 0) -> Rows:
    """Random rows: one for each entry of ``pieces``, which gives the ordinary tokens of each of its documents.

    Words have one token or more; the first token of a document may stand within a word.
    """
    random = np.random.default_rng(seed)
    shape = (len(pieces), length)
    ids, segments = np.full(shape, PAD), np.zeros(shape, dtype=np.int64)
    is_special, starts = np.ones(shape, dtype=bool), np.zeros(shape, dtype=bool)
    whole = np.zeros(shape, dtype=bool)
    for row, sizes in enumerate(pieces):
        column = 0
        for number, size in enumerate(sizes, start=1):
            inside = slice(column + 1, column + 1 + size)
            ids[row, column], ids[row, column + size + 1] = START, END
            ids[row, inside] = random.integers(len(SPECIAL), VOCAB_SIZE, size)
            segments[row, column : column + size + 2] = number
            is_special[row, inside] = False
            begins = random.random(size) < 0.7
            starts[row, inside] = begins
            whole[row, inside] = begins & np.append(begins, True)[1:]
            column += size + 2
    return Rows(
        input_ids=torch.from_numpy(ids.astype(np.int64)),
        segments=torch.from_numpy(segments),
        is_special=torch.from_numpy(is_special),
        is_word_start=torch.from_numpy(starts),
        is_whole_word=torch.from_numpy(whole),
        keys=example_keys(seed, torch.arange(first_position, first_position + len(pieces))),
        is_full=all(len(sizes) == 1 and sizes[0] + 2 == length for sizes in pieces),
        is_packed=any(len(sizes) > 1 for sizes in pieces),
    )


def select(rows: Rows, numbers: Sequence[int]) -> Rows:
    """Some rows of a batch, in the order asked for."""
    return rows._map(lambda tensor: tensor[list(numbers)])


def make_masking(**options: Any) -> Masking:
    return Masking(MaskingConfig(**options), MASK, VOCAB_SIZE, SPECIAL_IDS)


def padded_batch(seed: int = 0, rate: float = 0.3) -> MaskedRows:
    """Six rows of 16, with padding, one of them without an ordinary token; 80/10/10 masked."""
    rows = make_rows([[14], [9], [4], [0], [1], [12]], length=16, seed=seed)
    return make_masking(rate=rate, mask_share=0.8, random_share=0.1)(rows)


def make_config(architecture: str, **options: Any) -> Any:
    sizes = {
        "vocab_size": VOCAB_SIZE,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 48,
        "max_position_embeddings": 64,
        "pad_token_id": PAD,
        "initializer_range": 0.15,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    special: dict[str, dict[str, Any]] = {
        "electra": {"embedding_size": 16},
        "modernbert": {
            "bos_token_id": START,
            "eos_token_id": END,
            "cls_token_id": START,
            "sep_token_id": END,
            "global_attn_every_n_layers": 2,
            "local_attention": 8,
        },
        "deberta-v2": {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "max_relative_positions": 16},
    }
    return AutoConfig.for_model(architecture, **(sizes | special.get(architecture, {}) | options))


def make_hf_masked_lm(architecture: str = "bert", seed: int = 0, **options: Any) -> PreTrainedModel:
    torch.manual_seed(seed)
    model: PreTrainedModel = AutoModelForMaskedLM.from_config(make_config(architecture, **options))
    with torch.no_grad():  # biases and norms begin as constants, which would hide one left out
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return model.train()


def make_masked_lm(architecture: str = "bert", seed: int = 0, **options: Any) -> MaskedLanguageModel:
    return MaskedLanguageModel(make_hf_masked_lm(architecture, seed, **options)).train()


def make_electra(seed: int = 0) -> ElectraPair:
    """A generator of 16 and a discriminator of 32 over shared embeddings of 16."""
    generator = make_masked_lm("electra", seed, hidden_size=16)
    torch.manual_seed(seed + 1)
    model = AutoModelForPreTraining.from_config(make_config("electra"))
    return ElectraPair(generator, Discriminator(model, model.discriminator_predictions)).train()


def make_table(pairs: Iterable[tuple[int, int]], vocab_size: int = VOCAB_SIZE) -> LookupTable:
    keys = np.array(sorted({gold * vocab_size + predicted for gold, predicted in pairs}), dtype=np.int64)
    return LookupTable(keys, vocab_size, "0" * 16)


class ConstantDetector(Detector):
    """The same credit everywhere."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def credit(self, gold: Tensor, predicted: Tensor, place: MaskedRows) -> Tensor:
        return torch.full(gold.shape, self.value, device=gold.device)


class FractionalDetector(Detector):
    """Credit in tenths that depends on both tokens and on the place: a detector that is not a table."""

    def credit(self, gold: Tensor, predicted: Tensor, place: MaskedRows) -> Tensor:
        return ((7 * gold + 3 * predicted + place.positions) % 11).to(torch.float32) / 10


def gradients(module: nn.Module) -> dict[str, Tensor]:
    """Take the gradients out of a module; a parameter that got none has zeros."""
    found = {
        name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
        for name, parameter in module.named_parameters()
    }
    module.zero_grad(set_to_none=True)
    return found


def assert_same(left: dict[str, Tensor], right: dict[str, Tensor], tolerance: float = 0.0) -> None:
    """Same names and values, to an absolute tolerance; 0 means bit for bit."""
    assert left.keys() == right.keys()
    for name, value in left.items():
        torch.testing.assert_close(right[name], value, atol=tolerance, rtol=0, msg=lambda m, n=name: f"{n}: {m}")
