"""Prototypes as a detector: one pass of a frozen encoder over the unmasked rows, and a matrix product."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Protocol, Self

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast

from trueneg.corruption.rows import MaskedRows, Rows
from trueneg.detectors.base import Detector, Proposals, credit_of
from trueneg.detectors.rowtext import TokenText, are_alike, substitution_kinds
from trueneg.detectors.scorers.prototypes import THRESHOLD, Prototypes, RowReader, load_pair
from trueneg.detectors.specification import Leaf, Resources
from trueneg.errors import ConfigError, ModelError
from trueneg.files.digests import fingerprint_of
from trueneg.lexicon.surface import surfaces
from trueneg.models.backbone import Encoder, check_packing, max_length
from trueneg.models.reading import WholeTextReader, drop_layers_above, unit_vectors, weights_digest
from trueneg.tokenizer import fingerprint

_AT_ONCE = 1024
"""Slots whose cosines with all prototypes are in memory at once."""
_ANNOTATED = 256
"""Default number of nearest prototypes to consider when annotating a corpus."""


class Reader(Protocol):
    """Reads rows and returns the vectors of gold."""

    def __call__(self, batch: MaskedRows) -> Tensor:
        """Unit vectors of gold, each relative to the rest of its text, float32 ``[batch, slots, hidden]``."""

    def digest(self) -> str:
        """Digest of the encoder and its layer."""


class PrototypeDetector(Detector):
    """Credit is the acceptance of the cosine between gold's vector in the unmasked row and the token's prototype.

    Only whole words are scored, and only tokens of gold's kind are accepted: alphabetic words of three letters or more,
    no stop words, with the same prefix and casing.

    Args:
        reader: Reads the rows.
        table: Prototype of each token, float32 ``[vocab, hidden]``, zeros where there is none.
        kinds: Kind of each token, int64 ``[vocab]``.
        threshold: The minimum cosine to accept.
        top: How many substitutes are listed.
        provenance: Where the prototypes come from.
        annotates: Whether a corpus is annotated: then only tokens that have a prototype are considered, and only for
            words that the reader read, which synchronises with the device.
    """

    def __init__(
        self,
        reader: Reader,
        table: Tensor,
        kinds: Tensor,
        threshold: float = THRESHOLD,
        top: int = 8,
        provenance: Mapping[str, str] | None = None,
        annotates: bool = False,
    ) -> None:
        super().__init__()
        self.vectors = reader
        self.annotates = annotates
        self._known: tuple[Tensor, Tensor] | None = None
        self.threshold = threshold
        self.top = top
        self.provenance = {**(provenance or {}), "threshold": str(threshold)}
        self._table: Tensor
        self._kinds: Tensor
        self.register_buffer("_table", table, persistent=False)
        self.register_buffer("_kinds", kinds, persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move the reader's encoder along with the prototypes: in a compiled step this would break the graph."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if isinstance(self.vectors, DeviceRowReader):
            self.vectors.encoder.follow(self._table)
        return self

    @property
    def lists(self) -> bool:
        """True."""
        return True

    @torch.no_grad()
    def credit(self, gold: Tensor, tokens: Tensor, batch: MaskedRows) -> Tensor:
        """Give each token its acceptance where it is accepted, else 0."""
        return self._credit(self.vectors(batch), batch, tokens)

    @torch.no_grad()
    def propose(self, gold: Tensor, predicted: Tensor, batch: MaskedRows) -> Proposals:
        """List the tokens of gold's kind nearest to its vector."""
        vectors = self.vectors(batch)
        own = gold.clamp(max=len(self._table) - 1)
        search = self._accepted if self.annotates else self._nearest
        found = search(vectors.flatten(0, 1), own.flatten())
        cosines, tokens = (part.unflatten(0, gold.shape) for part in found)
        acceptance = credit_of(cosines, self.threshold) * self._is_alike(batch, tokens)
        return Proposals(self._credit(vectors, batch, predicted), tokens, acceptance)

    def digest(self) -> str:
        """Return the reader's digest; prototypes are a buffer."""
        return self.vectors.digest()

    def _nearest(self, vectors: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and tokens of the ``top`` nearest prototypes of gold's kind, for unit vectors ``[n, hidden]``."""
        found = [self._nearest_of(*part) for part in zip(vectors.split(_AT_ONCE), own.split(_AT_ONCE), strict=True)]
        cosines, tokens = (torch.cat(part) for part in zip(*found, strict=True))
        return cosines, tokens

    def _nearest_of(self, vectors: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
        with torch.autocast(vectors.device.type, enabled=False):
            cosines = (vectors @ self._table.T).scatter(1, own.unsqueeze(-1), -1.0)
        # Otherwise the nearest are mostly gold and its neighbours in other spellings, where a vocabulary has these.
        tokens = torch.arange(cosines.shape[-1], device=cosines.device)
        cosines = cosines.masked_fill(~are_alike(self._kinds, own.unsqueeze(-1), tokens), -1.0)
        nearest = cosines.topk(min(self.top, cosines.shape[-1]))
        return nearest.values, nearest.indices

    def _accepted(self, vectors: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
        """The same for those that are accepted: as wide as the longest list, with cosine 0 and gold at unused entries.

        Few prototypes reach the threshold, so these are gathered and not all of them sorted. Zero vectors, of words
        that were not read, have none.
        """
        listed, table = self._with_prototype()
        found = []
        for slots in vectors.any(-1).nonzero().squeeze(-1).split(_AT_ONCE):
            with torch.autocast(vectors.device.type, enabled=False):
                cosines = vectors[slots] @ table.T
            slot, column = (cosines >= self.threshold).nonzero(as_tuple=True)
            is_alike = are_alike(self._kinds, own[slots[slot]], listed[column])
            slot, column = slot[is_alike], column[is_alike]
            found.append(_best(slots[slot], listed[column], cosines[slot, column], own, self.top))
        slot, rank, tokens, best = (torch.cat(part) for part in zip(*found, strict=True))
        width = int(rank.max()) + 1 if len(rank) else 0
        lists = vectors.new_zeros(len(own), width), own.unsqueeze(-1).repeat(1, width)
        lists[0][slot, rank], lists[1][slot, rank] = best, tokens
        return lists

    def _with_prototype(self) -> tuple[Tensor, Tensor]:
        """The tokens that have a prototype, int64 ``[n]``, and these prototypes, ``[n, hidden]``."""
        if self._known is None or self._known[0].device != self._table.device:
            tokens = self._table.any(-1).nonzero().squeeze(-1)
            self._known = tokens, self._table[tokens]
        return self._known

    def _credit(self, vectors: Tensor, batch: MaskedRows, tokens: Tensor) -> Tensor:
        chosen = tokens.reshape(*batch.gold.shape, -1)
        with torch.autocast(vectors.device.type, enabled=False):
            cosine = torch.einsum("bsh,bsnh->bsn", vectors, self._table[chosen.clamp(max=len(self._table) - 1)])
        return (credit_of(cosine, self.threshold) * self._is_alike(batch, chosen)).reshape(tokens.shape)

    def _is_alike(self, batch: MaskedRows, tokens: Tensor) -> Tensor:
        return are_alike(self._kinds, batch.gold.unsqueeze(-1), tokens) & batch.is_whole_word.unsqueeze(-1)


def _best(
    slot: Tensor, tokens: Tensor, cosines: Tensor, own: Tensor, top: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Rank the tokens of each slot, best first from 0, without gold; return slot, rank, token and cosine of the best.

    Args:
        slot: Slot of each pair, ascending.
        tokens: Token of each pair.
        cosines: Cosine of each pair.
        own: Gold of each slot.
        top: How many pairs of a slot to keep.
    """
    is_other = tokens != own[slot]
    slot, tokens, cosines = slot[is_other], tokens[is_other], cosines[is_other]
    order = cosines.argsort(descending=True, stable=True)
    order = order[slot[order].argsort(stable=True)]
    counts = torch.bincount(slot, minlength=len(own))
    rank = torch.arange(len(slot), device=slot.device) - (counts.cumsum(0) - counts)[slot]
    is_kept = rank < top
    order = order[is_kept]
    return slot[is_kept], rank[is_kept], tokens[order], cosines[order]


class DeviceRowReader:
    """Reads rows with a frozen encoder of the same tokenizer, on the device and in static shapes.

    It is not a module, so neither checkpoints nor optimizers include the encoder. It runs in the precision of the
    training step.

    Args:
        encoder: The encoder, which is frozen here.
        layer: Layer whose states are compared; None for the last.
    """

    def __init__(self, encoder: Encoder, layer: int | None) -> None:
        self.encoder = encoder.eval().requires_grad_(False)
        self.layer = layer
        self._max_length = max_length(encoder.model)
        self._reads_packed = _reads_packed(encoder)

    @torch.no_grad()
    def __call__(self, batch: MaskedRows) -> Tensor:
        """Unit vectors of gold, each relative to the rest of its text, float32 ``[batch, slots, hidden]``.

        Raises:
            ConfigError: for rows that the encoder cannot read: longer than its positions, or packed.
        """
        rows = batch.rows
        self._check(rows)
        self.encoder.follow(rows.input_ids)
        states = self.encoder.encode(rows.input_ids, rows, self.layer).float()
        at_slots = states.gather(1, batch.positions.unsqueeze(-1).expand(-1, -1, states.shape[-1]))
        segment = rows.segments.gather(1, batch.positions)
        is_same = (rows.segments.unsqueeze(1) == segment.unsqueeze(2)).to(states.dtype)
        with torch.autocast(states.device.type, enabled=False):
            totals = torch.bmm(is_same, states)
        rest = (totals - at_slots) / (is_same.sum(-1, keepdim=True) - 1).clamp(min=1)
        return nn.functional.normalize(at_slots - rest, dim=-1)

    def digest(self) -> str:
        """Digest of the weights and the layer."""
        return fingerprint_of([weights_digest(self.encoder), self.layer])

    def _check(self, rows: Rows) -> None:
        """Refuse what the encoder cannot read, by shapes only, without device synchronisation."""
        remedy = "annotate the corpus first ('trueneg corpus annotate'), which reads any"
        if (length := rows.input_ids.shape[1]) > self._max_length:
            raise ConfigError(
                f"corpus.length={length}: the encoder of the detector 'prototypes' has only {self._max_length} "
                f"positions: shorten the rows, or {remedy}"
            )
        if rows.is_packed and not self._reads_packed:
            raise ConfigError(
                f"corpus.pack: the encoder of the detector 'prototypes' cannot keep the documents of one row apart: "
                f"leave --pack out, or {remedy}"
            )


class TextRowReader:
    """Reads rows as text, with an encoder of any tokenizer; this blocks the training step.

    Args:
        reader: Reads rows.
        kinds: Kind of each token, int64 ``[vocab]``; tokens without one are not read.
    """

    def __init__(self, reader: RowReader, kinds: Tensor) -> None:
        self.reader = reader
        self._is_word = kinds.numpy() >= 0

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def __call__(self, batch: MaskedRows) -> Tensor:
        """Unit vectors of gold, zeros for tokens that are not read: float32 ``[batch, slots, hidden]``."""
        ids, at, is_slot = (tensor.cpu().numpy() for tensor in (batch.rows.input_ids, batch.positions, batch.is_masked))
        is_known = ids < len(self._is_word)
        is_read = np.zeros(ids.shape, bool)
        row, slot = is_slot.nonzero()
        is_read[row, at[row, slot]] = True
        is_read &= batch.rows.is_whole_word.cpu().numpy() & is_known & self._is_word[np.where(is_known, ids, 0)]
        encoder = self.reader.reader.encoder
        if encoder.model.device != batch.gold.device:
            encoder.to(batch.gold.device)
        with torch.autocast(batch.gold.device.type, enabled=False):
            read = unit_vectors(self.reader(ids, is_read, batch.rows.segments.cpu().numpy()))
        number = np.where(is_read, is_read.cumsum().reshape(ids.shape), 0)
        vectors = np.concatenate([np.zeros((1, read.shape[1]), np.float32), read])
        return torch.from_numpy(vectors[np.take_along_axis(number, at, 1)]).to(batch.gold.device)

    def digest(self) -> str:
        """Digest of the weights, the tokenizer and the layer."""
        encoder = self.reader.reader.encoder
        return fingerprint_of([encoder.digest(), encoder.layers])


def _reads_packed(encoder: Encoder) -> bool:
    """Whether an encoder keeps the documents of one row apart; checked once, because it synchronises."""
    try:
        check_packing(encoder)
    except ModelError:
        return False
    return True


def prototype_table(prototypes: Prototypes, tokenizer: PreTrainedTokenizerFast) -> Tensor:
    """The prototype of each token that is a word, float32 ``[vocab, hidden]``; zeros for the others."""
    entries = surfaces(tokenizer)
    table = torch.zeros(len(entries), prototypes.matrix.shape[1])
    matrix = torch.from_numpy(prototypes.matrix)
    for token, surface in enumerate(entries):
        if surface.starts_word and (row := prototypes.find(surface.word)) is not None:
            table[token] = matrix[row]
    return table


def make_detector(leaf: Leaf, tokenizer: PreTrainedTokenizerFast, resources: Resources) -> PrototypeDetector:
    """Make ``prototypes:FILE[top=8]@0.6``; rows are read as text in annotation and if the tokenizers differ."""
    # As text, a row may have more tokens than it has, and is read whole where the encoder has the positions.
    encoder, prototypes = load_pair(leaf, resources.device, window=sys.maxsize)
    kinds = substitution_kinds(surfaces(tokenizer))
    reader: Reader
    if resources.annotates or fingerprint(encoder.tokenizer) != fingerprint(tokenizer):
        reader = TextRowReader(RowReader(WholeTextReader(encoder), TokenText(tokenizer)), kinds)
    else:
        layer = encoder.layers[0]
        is_last = drop_layers_above(encoder.model, layer)
        reader = DeviceRowReader(Encoder(encoder.model), None if is_last else layer)
    top = leaf.count("top", _ANNOTATED if resources.annotates else 8, min=1)
    table = prototype_table(prototypes, tokenizer)
    return PrototypeDetector(
        reader, table, kinds, leaf.threshold_or(prototypes.threshold), top, prototypes.provenance, resources.annotates
    )
