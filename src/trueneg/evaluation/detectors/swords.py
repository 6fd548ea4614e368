"""Human judgements of substitutes in the JSON format of SWORDS (Lee et al. 2021): SWORDS, CoInCo, SemEval-07.

One JSON object, plain or gzipped: ``contexts``, ``targets`` (a word of a context, by its offset), ``substitutes`` (of
a target), ``substitute_labels`` (one label per annotator) and ``substitutes_lemmatized``.
"""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trueneg.detectors.scorers.base import Substitution
from trueneg.errors import ConfigError, CorpusError, TruenegWarning, unknown_name
from trueneg.files.records import parse_json
from trueneg.files.text import LONGEST_TEXT
from trueneg.lexicon.morphology import agreeing_substitute
from trueneg.lexicon.wordnet_location import PartOfSpeech

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

FORMAT = (
    "get a file in the JSON format of SWORDS: swords-v1.1_dev.json.gz, or CoInCo and SemEval-07 as converted by "
    "github.com/p-lambda/swords"
)

LEVELS = {"most": 0.5, "any": 0.1}
"""Name to the share of annotators that must accept a substitute for it to count as acceptable."""

_KEYS: dict[str, type] = {
    "contexts": dict,
    "targets": dict,
    "substitutes": dict,
    "substitutes_lemmatized": bool,
    "substitute_labels": dict,
}

_ACCEPTS = {"TRUE": True, "TRUE_IMPLICIT": True, "FALSE": False, "FALSE_IMPLICIT": False, "UNSURE": False}
"""Labels, and whether they accept the substitute. Implicit ones come from annotators who proposed substitutes
themselves: one label per annotator who proposed this one, or a negative one if none did."""

_PARTS_OF_SPEECH: dict[str, PartOfSpeech] = {"NOUN": "n", "PROPN": "n", "VERB": "v", "AUX": "v", "ADJ": "a", "ADV": "r"}
_OTHER_PARTS_OF_SPEECH = frozenset(
    "UNKNOWN ADP CCONJ DET INTJ NUM PART PRON PUNCT SCONJ SYM X".split()  # noqa: SIM905
)
_UNIVERSAL: dict[PartOfSpeech, str] = {"n": "NOUN", "v": "VERB", "a": "ADJ", "r": "ADV"}


@dataclass(frozen=True, slots=True)
class Item:
    """A substitution and its human judgement."""

    substitution: Substitution
    """Inflected and cased as the target, unless read with ``inflect=False``."""
    acceptability: float
    """Share of the annotators that accept it, in [0, 1]; unsure ones do not."""
    target_id: str
    substitute_id: str
    lemma: str
    """Base form of the target."""
    substitute_lemma: str
    """The substitute as in the file."""
    num_accepting: int = 0
    """Annotators that accept it."""
    num_rejecting: int = 0
    """Annotators that do not; unsure ones count in neither."""
    is_proposed: bool = False
    """Whether annotators proposed substitutes themselves (CoInCo, SemEval-07) instead of judging this one."""


@dataclass(frozen=True)
class Benchmark:
    """Items, and the files that they come from."""

    items: tuple[Item, ...]
    digests: Mapping[str, str]
    """Name of each file to the SHA-256 of its bytes."""

    @property
    def target_ids(self) -> tuple[str, ...]:
        """Targets, each once, in the order of the files."""
        return tuple(dict.fromkeys(item.target_id for item in self.items))

    def sample(self, num_targets: int, seed: int = 0) -> Benchmark:
        """Draw targets without replacement, with all their substitutes; all of them if there are fewer."""
        ids = self.target_ids
        if num_targets >= len(ids):
            return self
        drawn = np.random.default_rng(seed).choice(len(ids), num_targets, replace=False)
        kept = {ids[at] for at in drawn}
        return dataclasses.replace(self, items=tuple(item for item in self.items if item.target_id in kept))


def read_benchmark(path: str | Path, *, inflect: bool = True) -> Benchmark:
    """Read a benchmark.

    Args:
        path: A file, or a folder of files that end in ``.json`` or ``.json.gz``.
        inflect: Inflect and case lemmatised substitutes like their target; otherwise keep the file's form.

    Raises:
        CorpusError: for a file in another format, naming the faulty entry.
    """
    place = Path(path)
    if not place.exists():
        raise CorpusError(f"--data {place}: no such file or folder: {FORMAT}")
    files = sorted(f for f in place.iterdir() if f.name.endswith((".json", ".json.gz"))) if place.is_dir() else [place]
    if not files:
        raise CorpusError(f"--data {place}: no file in it ends in .json or .json.gz: {FORMAT}")
    items: list[Item] = []
    digests: dict[str, str] = {}
    file_of: dict[str, str] = {}
    for file in files:
        content = file.read_bytes()
        read = _read(file, content, inflect)
        for target_id in {item.target_id for item in read}:
            if target_id in file_of:
                raise CorpusError(f"{file}: target {target_id} is also in {file_of[target_id]}: name one of the files")
            file_of[target_id] = file.name
        items += read
        digests[file.name] = hashlib.sha256(content).hexdigest()
    return Benchmark(tuple(items), digests)


def level_named(level: str) -> float:
    """Look up the share of annotators of a level.

    Raises:
        ConfigError: for an unknown level.
    """
    if level not in LEVELS:
        raise ConfigError(unknown_name("level", level, LEVELS))
    return LEVELS[level]


def single_tokens(items: Sequence[Item], tokenizer: PreTrainedTokenizerFast) -> NDArray[np.bool_]:
    """Find the items whose target and substitute are a single known token each.

    Returns:
        bool ``[items]``.
    """
    words = {word for item in items for word in (item.substitution.target, item.substitution.substitute)}
    ordered = sorted(words)
    # As in running text: byte-level vocabularies have a different entry for a word after a space.
    encoded = tokenizer([f" {word}" for word in ordered], add_special_tokens=False)["input_ids"]
    whole = {w for w, ids in zip(ordered, encoded, strict=True) if len(ids) == 1 and ids[0] != tokenizer.unk_token_id}
    return np.array([{i.substitution.target, i.substitution.substitute} <= whole for i in items], np.bool_)


def _read(file: Path, content: bytes, inflect: bool) -> list[Item]:
    data = _parse(file, content)
    labels = data["substitute_labels"]
    if stray := [key for key in labels if key not in data["substitutes"]]:
        raise CorpusError(f"{file}: labels for {stray[0]}, which is not a substitute: {FORMAT}")
    contexts = {key: _field(file, key, entry, "context", str) for key, entry in data["contexts"].items()}
    targets = {key: _target(file, key, entry, contexts) for key, entry in data["targets"].items()}
    read: list[Item] = []
    for key, entry in data["substitutes"].items():
        substitute = _field(file, key, entry, "substitute", str)
        target_id = _field(file, key, entry, "target_id", str)
        if target_id not in targets:
            raise CorpusError(f"{file}: substitute {key}: there is no target {target_id}: {FORMAT}")
        if not substitute.strip():
            raise CorpusError(f"{file}: substitute {key} is empty: remove it")
        votes = labels.get(key)
        if not isinstance(votes, list) or not votes:
            raise CorpusError(f"{file}: substitute {key} has no labels: add them to substitute_labels, or remove it")
        if unknown := [vote for vote in votes if not isinstance(vote, str) or vote not in _ACCEPTS]:
            raise CorpusError(f"{file}: substitute {key}: {unknown_name('label', str(unknown[0]), _ACCEPTS)}")
        target, num_accepting = targets[target_id], sum(map(_ACCEPTS.__getitem__, votes))
        read.append(
            Item(
                substitution=target.replaced(substitute, inflect and data["substitutes_lemmatized"]),
                acceptability=num_accepting / len(votes),
                target_id=target_id,
                substitute_id=key,
                lemma=target.lemma,
                substitute_lemma=substitute,
                num_accepting=num_accepting,
                num_rejecting=len(votes) - num_accepting - votes.count("UNSURE"),
                is_proposed=any(vote.endswith("_IMPLICIT") for vote in votes),
            )
        )
    pool: list[Item] = []
    if any(item.is_proposed for item in read):
        if all(item.num_accepting for item in read):
            pool = list(_pooled(read, targets, inflect and data["substitutes_lemmatized"]))
        said = f"; {len(pool):,} candidates are those of other targets of the same lemma" if pool else ""
        warnings.warn(
            f"{file.name}: labels are implicit, annotators proposed substitutes themselves: one that any of them named "
            f"counts as accepted by all, so 'most' and 'any' are nearly the same{said}",
            TruenegWarning,
            stacklevel=2,
        )
    return read + pool


def _pooled(read: Sequence[Item], targets: Mapping[str, _Target], inflect: bool) -> Iterator[Item]:
    """Yield candidates that nobody proposed for a target: those of the lemma's other targets (Thater et al. 2010)."""
    proposed: dict[tuple[str, PartOfSpeech | None], dict[str, str]] = {}
    of_target: dict[str, set[str]] = {}
    for item in read:
        of_lemma = proposed.setdefault((item.lemma.lower(), item.substitution.pos), {})
        of_lemma.setdefault(item.substitute_lemma.lower(), item.substitute_lemma)
        of_target.setdefault(item.target_id, set()).add(item.substitute_lemma.lower())
    for target_id, own in of_target.items():
        target = targets[target_id]
        for key, word in proposed[target.lemma.lower(), target.pos].items():
            if key not in own:
                place = target.replaced(word, inflect)
                yield Item(place, 0.0, target_id, f"{target_id}/{key}", target.lemma, word, 0, 1, True)


def _parse(file: Path, content: bytes) -> dict[str, Any]:
    try:
        text = _decompressed(file, content) if content.startswith(b"\x1f\x8b") else content
    except (OSError, EOFError, zlib.error) as error:
        raise CorpusError(f"{file}: the gzip archive is damaged ({error}): download it again") from error
    if not text.strip():
        raise CorpusError(f"{file} is empty: {FORMAT}")
    data = parse_json(text, str(file), CorpusError, FORMAT)
    for key, kind in _KEYS.items():
        if not isinstance(data, dict) or not isinstance(data.get(key), kind):
            raise CorpusError(f"{file} is not in SWORDS' format, it has no '{key}' ({kind.__name__}): {FORMAT}")
    if not data["substitutes"]:
        raise CorpusError(f"{file} holds no substitutes: {FORMAT}")
    return dict(data)


def _decompressed(file: Path, content: bytes) -> bytes:
    with gzip.open(io.BytesIO(content)) as stream:
        text = stream.read(LONGEST_TEXT + 1)
    if len(text) > LONGEST_TEXT:
        raise CorpusError(f"{file}: over {LONGEST_TEXT:,} bytes come out of it, more than SWORDS has: {FORMAT}")
    return text


@dataclass(frozen=True, slots=True)
class _Target:
    text: str
    start: int
    end: int
    lemma: str
    pos: PartOfSpeech | None

    def replaced(self, substitute: str, inflect: bool) -> Substitution:
        if inflect:
            word, before = self.text[self.start : self.end], self.text[: self.start]
            substitute = agreeing_substitute(word, self.lemma, substitute, self.pos, before=before)
        return Substitution(self.text, self.start, self.end, substitute, self.pos)


def _target(file: Path, key: str, entry: Any, contexts: Mapping[str, str]) -> _Target:
    word = _field(file, key, entry, "target", str)
    context_id = _field(file, key, entry, "context_id", str)
    start = _field(file, key, entry, "offset", int)
    if context_id not in contexts:
        raise CorpusError(f"{file}: target {key}: there is no context {context_id}: {FORMAT}")
    text, end = contexts[context_id], start + len(word)
    # SWORDS' own library also takes the casing from the context.
    if not word or start < 0 or text[start:end].lower() != word.lower():
        raise CorpusError(f"{file}: target {key}: '{word}' is not at offset {start} of its context: fix the offset")
    pos = _part_of_speech(file, key, entry.get("pos"))
    return _Target(text, start, end, _lemma(entry, word, pos), pos)


def _part_of_speech(file: Path, key: str, name: Any) -> PartOfSpeech | None:
    """Map a Universal Dependencies tag to a lexicon's part of speech; None where lexicons have no such words."""
    if name is None or (isinstance(name, str) and name in _OTHER_PARTS_OF_SPEECH):
        return None
    if not isinstance(name, str) or name not in _PARTS_OF_SPEECH:
        known = [*_PARTS_OF_SPEECH, *_OTHER_PARTS_OF_SPEECH]
        raise CorpusError(f"{file}: target {key}: {unknown_name('part of speech', str(name), known)}")
    return _PARTS_OF_SPEECH[name]


def _lemma(entry: Mapping[str, Any], word: str, pos: PartOfSpeech | None) -> str:
    """Return the target's base form: from SWORDS or SemEval-07 if stated, else from the dictionary."""
    from lemminflect import getAllLemmas

    extra = entry.get("extra")
    if isinstance(extra, dict):
        stated = extra.get("coinco_lemma") or str(extra.get("lexelt_item", "")).partition(".")[0]
        if isinstance(stated, str) and stated:
            return stated
    found = getAllLemmas(word.lower(), upos=_UNIVERSAL[pos]) if pos else {}
    return next((str(lemma) for lemmas in found.values() for lemma in lemmas), word.lower())


def _field(file: Path, key: str, entry: Any, name: str, kind: type) -> Any:
    value = entry.get(name) if isinstance(entry, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise CorpusError(f"{file}: {key} has no '{name}' ({kind.__name__}): {FORMAT}")
    return value
