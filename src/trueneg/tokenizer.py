"""Tokenizers: load one, tell it from any other, train one, extend one."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from trueneg.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


def load_tokenizer(source: str | Path) -> PreTrainedTokenizerFast:
    """Load a fast tokenizer from a folder, a checkpoint or a hub name.

    Raises:
        ModelError: if there is none, if it is not a fast one (word boundaries need the fast ones), if it is code
            of its own (which is never run), or if it lacks a mask, padding, start or end token.

    Example:
        >>> load_tokenizer("no/such/folder")
        Traceback (most recent call last):
        trueneg.errors.ModelError: no tokenizer at 'no/such/folder': ...
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    looks_local = Path(source).exists() or str(source).count("/") > 1 or str(source).startswith((".", "/"))
    if looks_local and not Path(source).is_dir():
        raise ModelError(f"no tokenizer at '{source}': give a folder that holds tokenizer.json, or a hub name")
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(source), trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        if "trust_remote_code" in str(error):
            raise ModelError(
                f"the tokenizer of '{source}' is code of its own, which is never run: save it as a plain fast one "
                f"(tokenizer.json, without auto_map in tokenizer_config.json)"
            ) from error
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(f"cannot load a tokenizer from '{source}': {reason}") from error
    if not isinstance(tokenizer, PreTrainedTokenizerFast) or not tokenizer.is_fast:
        raise ModelError(f"the tokenizer of '{source}' is a slow one: save it as a fast one (tokenizer.json)")
    for role, token_id in special_ids(tokenizer).items():
        if token_id is None:
            raise ModelError(
                f"the tokenizer of '{source}' has no {role} token, which masked pre-training needs: "
                f"add one, or make a tokenizer with 'trueneg tokenizer train'"
            )
    return tokenizer


def save_tokenizer(tokenizer: PreTrainedTokenizerFast, folder: str | Path) -> None:
    """Save a tokenizer so that ``AutoTokenizer`` loads it.

    Raises:
        OSError: if the disk is full or not writable; the library itself raises a bare ``Exception``.
    """
    try:
        tokenizer.save_pretrained(str(folder))
    except OSError:
        raise
    except Exception as error:
        if type(error) is not Exception:
            raise
        raise OSError(f"cannot write the tokenizer to '{folder}': {error}") from error


def special_ids(tokenizer: PreTrainedTokenizerFast) -> dict[str, int | None]:
    """Ids of the tokens that frame and mask a row, by role: mask, pad, start, end."""
    return {
        "mask": tokenizer.mask_token_id,
        "pad": tokenizer.pad_token_id,
        "start": tokenizer.cls_token_id if tokenizer.cls_token_id is not None else tokenizer.bos_token_id,
        "end": tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id,
    }


def fingerprint(tokenizer: PreTrainedTokenizerFast) -> str:
    """A name for what the tokenizer does: equal for equal vocabularies, rules and special tokens.

    Returns:
        16 hexadecimal digits of a SHA-256 over the tokenizer's own serialisation (padding and truncation,
        which are settings of a call, left out) and its special ids.
    """
    # Padding and truncation stand before the rules; parsing megabytes to drop them would take most of a second.
    _, _, rules = tokenizer.backend_tokenizer.to_str().partition('"added_tokens"')
    text = json.dumps(special_ids(tokenizer), sort_keys=True) + rules
    return hashlib.sha256(text.encode()).hexdigest()[:16]
