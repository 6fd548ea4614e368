"""Our losses against those of transformers' own classes, which are given labels and compute every row."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import tiny
from trueneg.corruption.rows import MaskedRows
from trueneg.models.backbone import MaskedLanguageModel
from trueneg.objectives.base import TrainingModule
from trueneg.objectives.mlm import MaskedLM
from trueneg.objectives.rtd import ReplacedTokenDetection


def masked_labels(batch: MaskedRows) -> Tensor:
    """Gold at masked positions, -100 (ignored) elsewhere."""
    labels = torch.full_like(batch.input_ids, -100)
    for row, column in zip(*torch.where(batch.is_masked), strict=True):
        labels[row, batch.positions[row, column]] = batch.gold[row, column]
    return labels


def attention_mask(batch: MaskedRows) -> Tensor:
    return (batch.rows.segments > 0).long()


@pytest.mark.parametrize("architecture", tiny.ARCHITECTURES)
@pytest.mark.parametrize("pieces", [[[14], [9], [4], [1]], [[14], [14]]], ids=["padded", "full"])
def test_masked_lm(architecture: str, pieces: list[list[int]]) -> None:
    theirs = tiny.make_hf_masked_lm(architecture)
    batch = tiny.make_masking(rate=0.3, mask_share=0.8, random_share=0.1)(tiny.make_rows(pieces, 16))
    expected = theirs(input_ids=batch.input_ids, attention_mask=attention_mask(batch), labels=masked_labels(batch)).loss
    expected.backward()
    expected_gradients = tiny.gradients(theirs)

    ours = MaskedLanguageModel(theirs)
    objective = MaskedLM(tiny.make_masking())
    loss, _ = TrainingModule(ours, objective)(batch, objective.counts(batch))
    loss.backward()

    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    tiny.assert_same(expected_gradients, tiny.gradients(theirs), tolerance=1e-6)
    assert max(gradient.abs().max() for gradient in expected_gradients.values()) > 0.01


@pytest.mark.parametrize("architecture", tiny.ARCHITECTURES)
def test_packed_row_is_its_documents_alone(architecture: str) -> None:
    """A row of two documents gives each what it gets in a row of its own."""
    packed = tiny.make_rows([[6, 4]], 16)
    model = tiny.make_hf_masked_lm(architecture)
    hidden = MaskedLanguageModel(model).encode(packed.input_ids, packed)
    for piece in (slice(0, 8), slice(8, 14)):
        alone = model.base_model(input_ids=packed.input_ids[:, piece]).last_hidden_state
        torch.testing.assert_close(hidden[:, piece], alone, atol=5e-6, rtol=0)


def test_roberta_padding_token_within_a_text_moves_no_position() -> None:
    """A generator may draw it; transformers' own positions would then shift."""
    rows = tiny.make_rows([[9], [5]], 12)
    model = tiny.make_masked_lm("roberta")
    ids = rows.input_ids.clone()
    ids[:, 3] = tiny.PAD
    positions = torch.arange(12).expand(2, -1) + tiny.PAD + 1
    expected = model.model.base_model(
        input_ids=ids, attention_mask=(rows.segments > 0).long(), position_ids=positions
    ).last_hidden_state
    found = model.encode(ids, rows)
    is_token = rows.segments > 0
    torch.testing.assert_close(found[is_token], expected[is_token], atol=5e-6, rtol=0)


def test_replaced_token_detection() -> None:
    """The discriminator's term and all gradients of ELECTRA's loss, with weights 1 and 50."""
    pair, batch = tiny.make_electra(), tiny.padded_batch()
    generator = MaskedLM(tiny.make_masking(), prediction="sampled")
    objective = ReplacedTokenDetection(generator)
    filled = generator.predict(pair.generator, batch).filled_ids
    replaced = (filled != batch.rows.input_ids).long()
    assert replaced.sum() >= 5

    mask = attention_mask(batch)
    generator_loss = pair.generator.model(
        input_ids=batch.input_ids, attention_mask=mask, labels=masked_labels(batch)
    ).loss
    discriminator_loss = pair.discriminator.model(input_ids=filled, attention_mask=mask, labels=replaced).loss
    (generator_loss + 50 * discriminator_loss).backward()
    expected_gradients = tiny.gradients(pair)

    counts = objective.counts(batch)
    loss, outcome = TrainingModule(pair, objective)(batch, counts)
    loss.backward()

    assert (outcome.terms["rtd"] / counts["rtd"]).item() == pytest.approx(discriminator_loss.item(), abs=1e-6)
    assert (outcome.terms["mlm"] / counts["mlm"]).item() == pytest.approx(generator_loss.item(), rel=1e-6)
    # Weight 50 is in these gradients, and in their rounding.
    tiny.assert_same(expected_gradients, tiny.gradients(pair), tolerance=1e-5)


def test_replaced_token_detection_gradient_alone() -> None:
    pair, batch = tiny.make_electra(), tiny.padded_batch()
    generator = MaskedLM(tiny.make_masking(), prediction="sampled")
    filled = generator.predict(pair.generator, batch).filled_ids
    pair.discriminator.model(
        input_ids=filled,
        attention_mask=attention_mask(batch),
        labels=(filled != batch.rows.input_ids).long(),
    ).loss.backward()
    expected_gradients = tiny.gradients(pair)

    objective = ReplacedTokenDetection(generator)
    (objective(pair, batch).terms["rtd"] / objective.counts(batch)["rtd"]).backward()
    tiny.assert_same(expected_gradients, tiny.gradients(pair), tolerance=1e-6)


def test_generator_is_tied_to_the_shared_embeddings() -> None:
    pair = tiny.make_electra()
    assert pair.generator.embeddings is pair.discriminator.embeddings
    assert pair.generator.model.get_output_embeddings().weight is pair.embeddings
