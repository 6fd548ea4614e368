"""Prototypes while training: one pass of a frozen encoder over the unmasked rows, and a product."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast

from trueneg.config.options import CorrectionConfig
from trueneg.corruption.rows import MaskedRows, Rows
from trueneg.detectors.base import Detector, Proposals, credit_of
from trueneg.detectors.digest import weights_digest
from trueneg.detectors.online import OnlineDetector
from trueneg.detectors.reading import drop_layers_above
from trueneg.detectors.rowtext import are_alike, substitution_kinds
from trueneg.detectors.scorers.prototypes import THRESHOLD, Prototypes, PrototypesScorer, load_pair
from trueneg.detectors.specification import Leaf
from trueneg.errors import ConfigError, ModelError
from trueneg.files.digests import fingerprint_of
from trueneg.lexicon.surface import surfaces
from trueneg.models.backbone import Encoder, check_packing, max_length
from trueneg.tokenizer import fingerprint


class PrototypeDetector(Detector):
    """Credit is the acceptance of the cosine of gold's vector, in the unmasked row, and the prediction's prototype.

    For an encoder with the corpus's tokenizer: all of it stays on the device, in static shapes. Only a whole word is
    judged, and only tokens of gold's kind are accepted: alphabetic words of three letters or more, no stop words, of
    the same prefix and casing.

    The encoder is no part of the model: it is not in checkpoints. It runs in the precision of the step around it;
    vectors are compared in float32.

    Args:
        encoder: Frozen.
        layer: Whose states are compared; None for the last.
        table: Prototype of each token, float32 ``[vocab, hidden]``, zeros where there is none.
        kinds: Kind of each token, int64 ``[vocab]``.
        threshold: The least cosine to accept.
        top: How many substitutes are listed.
    """

    def __init__(
        self,
        encoder: Encoder,
        layer: int | None,
        table: Tensor,
        kinds: Tensor,
        threshold: float = THRESHOLD,
        top: int = 8,
    ) -> None:
        super().__init__()
        # In a list it is no submodule, so neither checkpoints nor optimizers see it.
        self._encoder = [encoder.eval().requires_grad_(False)]
        self._longest = max_length(encoder.model)
        self._reads_packed = _reads_packed(encoder)
        self.layer = layer
        self.threshold = threshold
        self.top = top
        self._table: Tensor
        self._kinds: Tensor
        self.register_buffer("_table", table, persistent=False)
        self.register_buffer("_kinds", kinds, persistent=False)

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
        """List the tokens nearest to gold's vector."""
        vectors = self.vectors(batch)
        with torch.autocast(gold.device.type, enabled=False):
            cosines = vectors @ self._table.T
        cosines = cosines.scatter(2, gold.clamp(max=len(self._table) - 1).unsqueeze(-1), -1.0)
        nearest = cosines.topk(min(self.top, cosines.shape[-1]))
        acceptance = credit_of(nearest.values, self.threshold) * self._is_alike(batch, nearest.indices)
        return Proposals(self._credit(vectors, batch, predicted), nearest.indices, acceptance)

    def _credit(self, vectors: Tensor, batch: MaskedRows, tokens: Tensor) -> Tensor:
        chosen = tokens.reshape(*batch.gold.shape, -1)
        with torch.autocast(vectors.device.type, enabled=False):
            cosine = torch.einsum("bsh,bsnh->bsn", vectors, self._table[chosen.clamp(max=len(self._table) - 1)])
        return (credit_of(cosine, self.threshold) * self._is_alike(batch, chosen)).reshape(tokens.shape)

    def _is_alike(self, batch: MaskedRows, tokens: Tensor) -> Tensor:
        return are_alike(self._kinds, batch.gold.unsqueeze(-1), tokens) & batch.is_whole_word.unsqueeze(-1)

    def vectors(self, batch: MaskedRows) -> Tensor:
        """Unit vectors of gold, each relative to the rest of its text, float32 ``[batch, slots, hidden]``.

        Raises:
            ConfigError: for rows that the encoder cannot read: longer ones than it has positions for, or packed ones.
        """
        rows = batch.rows
        self._check(rows)
        (encoder,) = self._encoder
        if encoder.embeddings.device != rows.input_ids.device:
            encoder.to(rows.input_ids.device)
        states = encoder.encode(rows.input_ids, rows, self.layer).float()
        at_slots = states.gather(1, batch.positions.unsqueeze(-1).expand(-1, -1, states.shape[-1]))
        segment = rows.segments.gather(1, batch.positions)
        is_same = (rows.segments.unsqueeze(1) == segment.unsqueeze(2)).to(states.dtype)
        with torch.autocast(states.device.type, enabled=False):
            totals = torch.bmm(is_same, states)
        rest = (totals - at_slots) / (is_same.sum(-1, keepdim=True) - 1).clamp(min=1)
        return nn.functional.normalize(at_slots - rest, dim=-1)

    def digest(self) -> str:
        """The encoder's, and the layer's: prototypes are a buffer."""
        return fingerprint_of([weights_digest(self._encoder[0]), self.layer])

    def _check(self, rows: Rows) -> None:
        """Refuse what the encoder cannot read; of shapes only, so nothing waits for the device."""
        remedy = "annotate the corpus beforehand ('trueneg corpus annotate'), which reads any"
        if (length := rows.input_ids.shape[1]) > self._longest:
            raise ConfigError(
                f"corpus.length={length}: the encoder of the detector 'prototypes' has only {self._longest} positions: "
                f"shorten the rows, or {remedy}"
            )
        if rows.is_packed and not self._reads_packed:
            raise ConfigError(
                f"corpus.pack: the encoder of the detector 'prototypes' cannot keep the documents of one row apart: "
                f"leave --pack out, or {remedy}"
            )


def _reads_packed(encoder: Encoder) -> bool:
    """Whether an encoder keeps the documents of one row apart; asked once, as the answer is waited for."""
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


def make_detector(leaf: Leaf, config: CorrectionConfig, tokenizer: PreTrainedTokenizerFast) -> Detector:
    """Make ``prototypes:FILE[top=8]@0.6``; with an encoder of another tokenizer, one that reads text."""
    encoder, prototypes = load_pair(leaf)
    threshold = leaf.threshold_or(THRESHOLD)
    if fingerprint(encoder.tokenizer) != fingerprint(tokenizer):
        return OnlineDetector(PrototypesScorer(encoder, prototypes, threshold), tokenizer)
    layer = encoder.layers[0]
    is_last = drop_layers_above(encoder.model, layer)
    return PrototypeDetector(
        Encoder(encoder.model),
        None if is_last else layer,
        prototype_table(prototypes, tokenizer),
        substitution_kinds(surfaces(tokenizer)),
        threshold,
        int(leaf.number("top", 8, least=1)),
    )
