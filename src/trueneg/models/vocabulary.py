"""Compare a checkpoint's vocabulary with the corpus's: accept, extend or refuse it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from trueneg.errors import ModelError, TruenegWarning
from trueneg.models.backbone import embedding_table
from trueneg.tokenizer import fingerprint, load_tokenizer

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json")


def fit_vocabulary(
    model: PreTrainedModel, source: str, tokenizer: PreTrainedTokenizerFast, extend: bool = False
) -> None:
    """Check that a checkpoint's vocabulary matches the corpus's tokenizer; extend it if that is allowed.

    Args:
        model: The loaded checkpoint; changed in place if extended.
        source: Where the checkpoint, with its own tokenizer, was loaded from.
        tokenizer: The corpus's tokenizer.
        extend: Allow entries that the checkpoint lacks.

    Raises:
        ModelError: if the two vocabularies disagree.
    """
    own = _own_tokenizer(source)
    added: dict[int, str] = {}
    if own is None:
        warnings.warn(
            f"'{source}' carries no tokenizer to compare with the corpus's: make sure it is the same",
            TruenegWarning,
            stacklevel=4,
        )
    elif fingerprint(own) != fingerprint(tokenizer):
        theirs, ours = own.get_vocab(), tokenizer.get_vocab()
        if any(ours.get(token) != index for token, index in theirs.items()):
            raise ModelError(
                f"the corpus was built with another tokenizer than that of '{source}': build it again with "
                f"--tokenizer {source}"
            )
        added = {index: token for token, index in ours.items() if token not in theirs}
    if added and not extend:
        raise ModelError(
            f"the corpus's tokenizer has {len(added):,} entries that '{source}' lacks: continue with "
            f"--extend-vocabulary, or build the corpus with --tokenizer {source}"
        )
    if added and own is not None:
        extend_embeddings(model, own, added)
    vocab_size = embedding_table(model).shape[0]
    if len(tokenizer) > vocab_size:
        raise ModelError(
            f"the corpus's tokenizer has {len(tokenizer):,} entries and '{source}' only {vocab_size:,}: build the "
            f"corpus with the tokenizer that the checkpoint was trained with"
        )


@torch.no_grad()
def extend_embeddings(model: PreTrainedModel, own: PreTrainedTokenizerFast, added: dict[int, str]) -> None:
    """Add rows for new vocabulary entries to a model, each the mean of the rows of its old pieces.

    Args:
        model: Changed in place, its output layer too.
        own: The tokenizer that the model was trained with.
        added: New ids, mapped to the entries' texts.

    Raises:
        ModelError: for a head that transformers cannot enlarge.

    Source: Hewitt (2021) shows that averaging keeps the change of the old distribution bounded; random rows do not.
    """
    if hasattr(model, "lm_predictions"):
        # transformers would enlarge that head's hidden layer instead of its bias.
        raise ModelError(f"the vocabulary of this {model.config.model_type} masked-LM head cannot be extended")
    old_size = embedding_table(model).shape[0]
    model.resize_token_embeddings(max(old_size, max(added) + 1), mean_resizing=False)
    tables = [embedding_table(model)]
    output = model.get_output_embeddings()
    if output is not None:
        if output.weight is not tables[0]:
            tables.append(output.weight)
        if (bias := getattr(output, "bias", None)) is not None:
            tables.append(bias)
            if not model.config.tie_word_embeddings:
                tables += _separate_biases(model, output)
    for index, token in added.items():
        # In running text a word follows a space, which is part of its first piece in byte-level vocabularies.
        pieces = own(f" {token}", add_special_tokens=False)["input_ids"] or [own.unk_token_id]
        for table in tables:
            table[index] = table[pieces].mean(0)


def _separate_biases(model: PreTrainedModel, output: nn.Module) -> list[Tensor]:
    """Give heads with untied weights a bias of their own beside their output layer's, and return these.

    transformers leaves them at the old size, or makes one parameter of both, of which a checkpoint then lacks one.
    """
    found: list[Tensor] = []
    for module in model.modules():
        if any(child is output for child in module.children()) and isinstance(
            getattr(module, "bias", None), nn.Parameter
        ):
            module.bias = nn.Parameter(cast(Tensor, output.bias).detach().clone())
            found.append(module.bias)
    return found


def _own_tokenizer(source: str) -> PreTrainedTokenizerFast | None:
    folder = Path(source)
    if folder.is_dir() and not any((folder / name).is_file() for name in _TOKENIZER_FILES):
        return None
    return load_tokenizer(source)
