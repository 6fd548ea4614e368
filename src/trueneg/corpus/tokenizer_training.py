"""Train a tokenizer on a corpus's sources, or add a domain's words to one that exists."""

from __future__ import annotations

import functools
import hashlib
import json
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from trueneg.corpus.encoding import cut
from trueneg.corpus.sources import read_documents
from trueneg.errors import CorpusError, ModelError, TruenegWarning
from trueneg.files.text import LONGEST_TEXT
from trueneg.files.whole import replace_folder
from trueneg.tokenizer import load_tokenizer, save_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from tokenizers.trainers import Trainer
    from transformers import PreTrainedTokenizerFast

Kind = Literal["wordpiece", "bpe"]

_CONTINUES = "##"
_LARGEST_ALPHABET = 1000  # or half of a larger vocabulary
_COUNTED_AT_ONCE = 1 << 20  # characters
_ROLES = {
    "wordpiece": {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"},
    "bpe": {"cls": "<s>", "pad": "<pad>", "sep": "</s>", "unk": "<unk>", "mask": "<mask>"},
}


def train_tokenizer(
    sources: Sequence[str],
    out: str | Path,
    *,
    vocab_size: int = 8192,
    kind: Kind = "wordpiece",
    lowercase: bool = True,
    min_frequency: int = 2,
    text_field: str = "text",
    lines: bool = False,
    max_document_mib: float = LONGEST_TEXT >> 20,
    sample: float = 1.0,
    seed: int = 0,
) -> PreTrainedTokenizerFast:
    """Train a tokenizer and save it where ``AutoTokenizer.from_pretrained`` finds it.

    ``wordpiece`` has BERT's normaliser, word splitting and special tokens; ``bpe`` is byte-level with
    RoBERTa's special tokens, so that it can encode any text.

    Args:
        sources: files, folders, globs or hub data sets.
        out: folder to write.
        vocab_size: number of entries to reach, including special tokens.
        kind: ``wordpiece`` or ``bpe``.
        lowercase: fold case (and, for WordPiece, strip accents).
        min_frequency: how often a pair of pieces must occur to be merged.
        text_field: field or column of the text in JSON, CSV, TSV, Parquet and hub sources.
        lines: make every line a document of its own.
        max_document_mib: maximum MiB of a line or of a record's text; longer ones are refused.
        sample: the share of documents to train on, chosen by a hash of seed and text.
        seed: chooses the sample.

    Returns:
        The tokenizer; it has fewer entries than requested, with a warning, if there is too little text.

    Raises:
        CorpusError: for sources that cannot be read, or that hold no text.
    """
    from transformers import PreTrainedTokenizerFast

    if kind not in _ROLES:
        raise CorpusError(f"unknown kind of tokenizer {kind!r}: wordpiece or bpe")
    if not 0 < sample <= 1:
        raise CorpusError(f"--sample {sample}: the share of documents must be in (0, 1]")
    roles = _ROLES[kind]
    backend = _wordpiece(lowercase) if kind == "wordpiece" else _byte_level_bpe(lowercase)
    documents = functools.partial(read_documents, text_field=text_field, lines=lines, max_document_mib=max_document_mib)
    read = functools.partial(_passages, sources, documents, sample, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruenegWarning)  # the second reading warns
        letters, left_out = _alphabet(backend, read(), vocab_size) if kind == "wordpiece" else ([], 0.0)
    first = [*roles.values(), *(_CONTINUES + letter for letter in letters if _goes_on(backend, letter))]
    least = len(first) + (len(letters) if kind == "wordpiece" else 256)
    if vocab_size < least:
        raise CorpusError(f"a vocabulary of {vocab_size:,} has no room for the alphabet of {least:,}: raise it")
    if left_out > 0:
        warnings.warn(
            f"the alphabet has the {len(letters):,} most frequent characters; {left_out:.2%} of the text are others, "
            f"which will be unknown: a larger --vocab-size has room for more, and --kind bpe needs none",
            TruenegWarning,
            stacklevel=2,
        )
    backend.train_from_iterator(read(), _trainer(kind, vocab_size, min_frequency, first, letters))
    backend = _with_added_tokens(backend, list(roles.values()))
    size = backend.get_vocab_size()
    if size == least and len(letters) < _LARGEST_ALPHABET:
        raise CorpusError("the sources hold too little text to train a tokenizer on")
    if size < vocab_size:
        remedy = "give a smaller --vocab-size" if left_out > 0 else "give more text or a smaller --vocab-size"
        warnings.warn(
            f"the tokenizer has {size:,} entries, not {vocab_size:,}: no more pieces occur often enough; {remedy}",
            TruenegWarning,
            stacklevel=2,
        )
    _frame(backend, roles["cls"], roles["sep"], segment_ids=kind == "wordpiece")
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        **{f"{role}_token": token for role, token in roles.items()},
        model_input_names=[
            "input_ids",
            *(["token_type_ids"] if kind == "wordpiece" else []),
            "attention_mask",
        ],
        clean_up_tokenization_spaces=False,
    )
    _save(tokenizer, Path(out))
    return load_tokenizer(out)


def _passages(
    sources: Sequence[str], documents: Callable[[str], Iterator[str]], sample: float, seed: int
) -> Iterator[str]:
    salt = (seed % (1 << 64)).to_bytes(8, "little")
    for source in sources:
        for text in documents(source):
            digest = hashlib.blake2b(text.encode(), digest_size=8, salt=salt, person=b"sample").digest()
            if int.from_bytes(digest, "little") < sample * (1 << 64):
                yield from cut(text)


def _alphabet(backend: Tokenizer, passages: Iterable[str], vocab_size: int) -> tuple[list[str], float]:
    """The most frequent characters after normalisation, without white space, in code-point order.

    Ideographs are words of their own, so they alone may take half of the vocabulary.

    Returns:
        The characters, and the share of the text's that are not among them.
    """
    counts = np.zeros(sys.maxunicode + 1, dtype=np.int64)
    for text in _joined(passages):
        codes, times = np.unique(np.frombuffer(text.encode("utf-32-le"), dtype="<u4"), return_counts=True)
        counts[codes] += times
    letters: Counter[str] = Counter()
    for code in np.flatnonzero(counts).tolist():
        for letter in backend.normalizer.normalize_str(chr(code)):
            letters[letter] += int(counts[code])
    frequent = sorted((letter for letter in letters if not letter.isspace()), key=lambda x: (-letters[x], x))
    num = max(_LARGEST_ALPHABET, vocab_size // 2)
    chosen = frequent[:_LARGEST_ALPHABET]
    chosen += [letter for letter in frequent[_LARGEST_ALPHABET:] if not _goes_on(backend, letter)][: num - len(chosen)]
    total = sum(letters[letter] for letter in frequent)
    return sorted(chosen), 1 - sum(letters[letter] for letter in chosen) / total if total else 0.0


def _joined(passages: Iterable[str]) -> Iterator[str]:
    """Join passages, which may be short lines: counting each by itself would take 40 times as long."""
    waiting, size = list[str](), 0
    for passage in passages:
        waiting.append(passage)
        size += len(passage)
        if size >= _COUNTED_AT_ONCE:
            yield "".join(waiting)
            waiting, size = [], 0
    yield "".join(waiting)


def _goes_on(backend: Tokenizer, letter: str) -> bool:
    """Whether a letter can continue a word: punctuation and ideographs are words of their own."""
    return len(backend.pre_tokenizer.pre_tokenize_str(backend.normalizer.normalize_str("a" + letter))) == 1


def _with_added_tokens(backend: Tokenizer, special_tokens: list[str]) -> Tokenizer:
    """The same tokenizer with these special tokens only; the others stay ordinary entries."""
    from tokenizers import Tokenizer

    rules = json.loads(backend.to_str())
    rules["added_tokens"] = [token for token in rules["added_tokens"] if token["content"] in special_tokens]
    return Tokenizer.from_str(json.dumps(rules))


def _wordpiece(lowercase: bool) -> Tokenizer:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    backend = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    return backend


def _byte_level_bpe(lowercase: bool) -> Tokenizer:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    backend = Tokenizer(models.BPE(unk_token="<unk>"))
    if lowercase:
        backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return backend


def _trainer(kind: Kind, vocab_size: int, min_frequency: int, first: list[str], letters: list[str]) -> Trainer:
    """A trainer that gives the same vocabulary every time.

    Left to itself, the library numbers the pieces ``##x`` in the order of a randomly seeded hash table and
    breaks ties between merges by these numbers, as it does between the rarest letters of too large an
    alphabet. So both are fixed in advance: the pieces via the list of special tokens.
    """
    from tokenizers import pre_tokenizers, trainers

    if kind == "wordpiece":
        return trainers.WordPieceTrainer(
            vocab_size=vocab_size,
            min_frequency=min_frequency,
            special_tokens=first,
            initial_alphabet=letters,
            limit_alphabet=len(letters),
            continuing_subword_prefix=_CONTINUES,
            show_progress=False,
        )
    return trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        special_tokens=first,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )


def _frame(backend: Tokenizer, start: str, end: str, *, segment_ids: bool) -> None:
    """Add ``[CLS] A [SEP]`` and ``[CLS] A [SEP] B [SEP]`` as in BERT, or ``<s> A </s></s> B </s>`` as in RoBERTa."""
    from tokenizers import processors

    second = f"$B:1 {end}:1" if segment_ids else f"{end}:0 $B:0 {end}:0"
    backend.post_processor = processors.TemplateProcessing(
        single=f"{start}:0 $A:0 {end}:0",
        pair=f"{start}:0 $A:0 {end}:0 {second}",
        special_tokens=[(token, backend.token_to_id(token)) for token in (start, end)],
    )


def extend_tokenizer(source: str | Path, words: Sequence[str], out: str | Path) -> tuple[int, list[str]]:
    """Add whole words to the vocabulary of a tokenizer, for continued pre-training on a domain.

    An added word is matched as a whole word only, after the tokenizer's own normalisation; every other text
    is tokenized as before. New ids follow the old ones, so that a model needs new embedding rows only.

    Args:
        source: folder or hub name of the tokenizer.
        words: the words, without white space.
        out: folder to save the extended tokenizer in.

    Returns:
        The number of words added, and the words that were a single token already.

    Raises:
        ModelError: for a tokenizer that cannot be used, an empty word, or one with white space in it.
    """
    from tokenizers import AddedToken

    tokenizer = load_tokenizer(source)
    if bad := [word for word in words if not word or any(map(str.isspace, word))]:
        raise ModelError(f"cannot add {bad[0]!r} to a vocabulary: it is empty or has white space in it")
    normalizer = tokenizer.backend_tokenizer.normalizer
    new: dict[str, str] = {}
    known = []
    for word in words:
        text = normalizer.normalize_str(word).strip(" \u2581") if normalizer is not None else word
        encodings = (tokenizer.encode(prefix + word, add_special_tokens=False) for prefix in ("", " "))
        if text in new:
            continue
        if any(len(ids) == 1 and ids[0] != tokenizer.unk_token_id for ids in encodings):
            known.append(word)
        else:
            # The library normalizes it again, which makes text that does not occur of spaced ideographs.
            new[text] = text if normalizer is None or normalizer.normalize_str(text) == text else word
    tokenizer.add_tokens([AddedToken(word, single_word=True, normalized=True) for word in new.values()])
    ids = [(word, tokenizer.encode(word, add_special_tokens=False)) for word in new.values()]
    if unmatched := [word for word, found in ids if len(found) != 1]:
        warnings.warn(
            f"{len(unmatched):,} of the added words are still tokenized as before, such as {unmatched[0]!r}: the "
            f"tokenizer's normalization changes them",
            TruenegWarning,
            stacklevel=2,
        )
    _save(tokenizer, Path(out))
    return len(new), known


def _save(tokenizer: PreTrainedTokenizerFast, out: Path) -> None:
    """Save whole or not at all, unless the folder has other content, which is kept, or is the working folder."""
    if out.is_dir() and (any(out.iterdir()) or out.samefile(".")):  # shells would stay in one that is replaced
        save_tokenizer(tokenizer, out)
    else:
        replace_folder(out, functools.partial(save_tokenizer, tokenizer))
