"""Tokenizers: load, save and fingerprint them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from trueneg.errors import ModelError
from trueneg.files.whole import write_json

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


_HUB_TIMEOUT = 5.0  # seconds


def load_tokenizer(source: str | Path) -> PreTrainedTokenizerFast:
    """Load a fast tokenizer from a folder, a checkpoint or a hub name.

    Raises:
        ModelError: if there is none, if it is not a fast one (needed for word boundaries), if it needs remote code
            (which is never run), or if it lacks a mask, padding, start or end token.

    Example:
        >>> load_tokenizer("no/such/folder")
        Traceback (most recent call last):
        trueneg.errors.ModelError: no tokenizer at 'no/such/folder', ...
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    name = str(source)
    looks_local = Path(source).exists() or name.count("/") > 1 or name.startswith((".", "/", "~")) or name.endswith("/")
    if looks_local and not Path(source).is_dir():
        what = "that is a file" if Path(source).is_file() else "no such folder"
        raise ModelError(f"no tokenizer at '{source}', {what}: give a folder that holds tokenizer.json, or a hub name")
    is_cached = not hub_answers(name)
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False, local_files_only=is_cached)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if "trust_remote_code" in str(error):
            raise ModelError(
                f"the tokenizer of '{source}' is code of its own, which is never run: save it as a plain fast one "
                f"(tokenizer.json, without auto_map in tokenizer_config.json)"
            ) from error
        if is_cached:
            raise ModelError(
                f"no folder '{source}' is here, it is not in the hub's cache, and the hub cannot be reached: give a "
                f"folder that holds tokenizer.json, such as 'hf download {source}' makes where there is a network "
                f"(with HF_HUB_OFFLINE=1 the cache is read without asking)"
            ) from error
        raise _unreadable(source, error) from error
    except Exception as error:
        if type(error) is not Exception:  # tokenizers raises a bare one for an invalid tokenizer.json
            raise
        raise _unreadable(source, error) from error
    if not isinstance(tokenizer.model_max_length, int | float):
        raise _unreadable(source, TypeError("model_max_length is no number"))
    if not isinstance(tokenizer, PreTrainedTokenizerFast) or not tokenizer.is_fast:
        raise ModelError(f"the tokenizer of '{source}' is a slow one: save it as a fast one (tokenizer.json)")
    if len(tokenizer) <= len(tokenizer.all_special_ids):  # made up by transformers if it finds no vocabulary
        raise ModelError(
            f"the tokenizer of '{source}' knows special tokens alone: its folder lacks tokenizer.json, or the "
            f"vocabulary's own file"
        )
    for role, token_id in special_ids(tokenizer).items():
        if token_id is None:
            raise ModelError(
                f"the tokenizer of '{source}' has no {role} token, which masked pre-training needs: "
                f"add one, or make a tokenizer with 'trueneg tokenizer train'"
            )
    return tokenizer


def hub_answers(name: str) -> bool:
    """Check once whether the hub can be reached; libraries would retry for each file, for a minute.

    Returns:
        False if it cannot be reached, so that only cached files are available; True also for a folder.
    """
    if Path(name).is_dir():
        return True
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        HfApi().model_info(name, timeout=_HUB_TIMEOUT)
    except (HfHubHTTPError, HFValidationError):  # an answer, which loading will report
        return True
    except Exception:  # errors of whichever HTTP library it uses, and of offline mode
        return False
    return True


def _unreadable(source: str | Path, error: Exception) -> ModelError:
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return ModelError(f"cannot load a tokenizer from '{source}': {reason}")


_OF_A_CALL = {
    *("is_local", "local_files_only", "name_or_path"),
    *("max_length", "stride", "truncation_strategy", "pad_to_multiple_of"),
}
"""Entries of ``tokenizer_config.json`` that record how a tokenizer was loaded and called, not what it is."""


def save_tokenizer(tokenizer: PreTrainedTokenizerFast, folder: str | Path) -> None:
    """Save a tokenizer so that ``AutoTokenizer`` loads it, without the padding and truncation of earlier calls.

    Raises:
        OSError: if the disk is full or not writable; tokenizers itself raises a bare ``Exception``.
    """
    # The files of many sentence encoders have both, and tokenizers, used alone, then pads and truncates every text.
    # transformers sets them anew in every call.
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    try:
        tokenizer.save_pretrained(str(folder))
        config = Path(folder) / "tokenizer_config.json"
        settings = json.loads(config.read_text(encoding="utf-8"))
        write_json(config, {name: value for name, value in settings.items() if name not in _OF_A_CALL})
    except OSError:
        raise
    except Exception as error:
        if type(error) is not Exception:
            raise
        raise OSError(f"cannot write the tokenizer to '{folder}': {error}") from error


def special_ids(tokenizer: PreTrainedTokenizerFast) -> dict[str, int | None]:
    """Ids of the special tokens of a row, by role: mask, pad, start, end."""
    return {
        "mask": tokenizer.mask_token_id,
        "pad": tokenizer.pad_token_id,
        "start": tokenizer.cls_token_id if tokenizer.cls_token_id is not None else tokenizer.bos_token_id,
        "end": tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id,
    }


def fingerprint(tokenizer: PreTrainedTokenizerFast) -> str:
    """Digest of what the tokenizer does: equal for equal vocabularies, rules and special tokens.

    Returns:
        16 hexadecimal digits of a SHA-256 over the tokenizer's own serialisation (without padding and truncation,
        which are settings of a call) and its special ids.
    """
    # Padding and truncation come before the rules; parsing megabytes to drop them would take most of a second.
    _, _, rules = tokenizer.backend_tokenizer.to_str().partition('"added_tokens"')
    text = json.dumps(special_ids(tokenizer), sort_keys=True) + rules
    return hashlib.sha256(text.encode()).hexdigest()[:16]
