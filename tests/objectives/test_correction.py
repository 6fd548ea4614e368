"""Hard correction and soft regularization at their limits, where the answer is known exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tiny
from trueneg.corruption.rows import MaskedRows
from trueneg.detectors.base import Detector, Proposals
from trueneg.detectors.table import TableDetector
from trueneg.errors import ConfigError, TruenegDeprecationWarning
from trueneg.lexicon.table import LookupTable
from trueneg.models.logits import WholeLogits
from trueneg.objectives.base import TrainingModule
from trueneg.objectives.correction import HardCorrection, corrected_labels, weigh
from trueneg.objectives.mlm import MaskedLM
from trueneg.objectives.regularization import Regularizer, SentenceRegularization, SoftRegularization
from trueneg.objectives.rtd import ReplacedTokenDetection

BATCH = tiny.padded_batch()


def mlm(*, correction: HardCorrection | None = None, regularizers: tuple[Regularizer, ...] = ()) -> Any:
    return tiny.make_masked_lm(), MaskedLM(tiny.make_masking(), correction, regularizers)


def electra(*, correction: HardCorrection | None = None, regularizers: tuple[Regularizer, ...] = ()) -> Any:
    generator = MaskedLM(tiny.make_masking(), correction, regularizers, prediction="sampled")
    return tiny.make_electra(), ReplacedTokenDetection(generator)


MAKERS = [pytest.param(mlm, id="mlm"), pytest.param(electra, id="electra")]


def loss_and_gradients(model: nn.Module, objective: Any, batch: MaskedRows = BATCH) -> tuple[Tensor, Any]:
    loss, _ = TrainingModule(model, objective)(batch, objective.counts(batch))
    loss.backward()
    return loss.detach(), tiny.gradients(model)


WEIGHED = [("drop", "masked"), ("drop", "kept"), ("down_weight", "masked")]


@pytest.mark.parametrize("use", ["down_weight", "soft_targets", "marginal"])
def test_kept_is_refused_where_every_position_is_left(use: str) -> None:
    with pytest.raises(ConfigError, match="denominator=kept"):
        HardCorrection(tiny.ConstantDetector(1.0), use, "kept")


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(("use", "denominator"), WEIGHED)
@pytest.mark.parametrize("how", ["original", "ignore", "soft"])
def test_no_credit_is_the_plain_loss_bit_for_bit(
    make: Callable[..., Any], use: str, denominator: str, how: str
) -> None:
    plain_loss, plain_gradients = loss_and_gradients(*make())
    correction = HardCorrection(tiny.ConstantDetector(0.0), use, denominator, how)
    loss, gradients = loss_and_gradients(*make(correction=correction))
    assert torch.equal(loss, plain_loss)
    tiny.assert_same(plain_gradients, gradients)


@pytest.mark.parametrize("seed", range(50))
def test_keeping_all_is_the_plain_sum_bit_for_bit(seed: int) -> None:
    """For any sum and number of positions: no factor is applied that is not exactly 1."""
    token_loss = torch.rand(BATCH.gold.shape, generator=torch.Generator().manual_seed(seed)) * 10
    batch = replace(BATCH, is_masked=torch.arange(BATCH.gold.numel()).view_as(BATCH.gold) <= seed % 24)
    credit = torch.zeros_like(token_loss)
    sums = [
        HardCorrection(tiny.ConstantDetector(0.0), denominator=over).masked_lm_loss(
            token_loss, None, credit, None, batch
        )
        for over in ("masked", "kept")
    ]
    assert torch.equal(*sums)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("use", ["drop", "down_weight"])
def test_empty_table_is_the_plain_loss_bit_for_bit(make: Callable[..., Any], use: str) -> None:
    plain_loss, plain_gradients = loss_and_gradients(*make())
    detector = TableDetector(LookupTable.empty(tiny.make_tokenizer()))
    loss, gradients = loss_and_gradients(*make(correction=HardCorrection(detector, use)))
    assert torch.equal(loss, plain_loss)
    tiny.assert_same(plain_gradients, gradients)


@pytest.mark.parametrize("make", MAKERS)
def test_set_without_substitutes_is_the_plain_loss(make: Callable[..., Any]) -> None:
    plain_loss, plain_gradients = loss_and_gradients(*make())
    for detector in (TableDetector(tiny.make_table([])), tiny.ConstantDetector(0.0)):
        loss, gradients = loss_and_gradients(*make(correction=HardCorrection(detector, "marginal")))
        torch.testing.assert_close(loss, plain_loss, rtol=1e-6, atol=0)
        # The discriminator's weight of 50 is in these gradients.
        tiny.assert_same(plain_gradients, gradients, tolerance=1e-6)


@pytest.mark.parametrize(("use", "denominator"), WEIGHED)
def test_full_credit_leaves_nothing(use: str, denominator: str) -> None:
    """Where every prediction is wrong and forgiven, there is no loss, no gradient, and no division by zero."""
    correction = HardCorrection(tiny.ConstantDetector(1.0), use, denominator)
    model, objective = mlm(correction=correction)
    assert objective.predict(model, BATCH).is_mispredicted.equal(BATCH.is_masked)
    loss, gradients = loss_and_gradients(model, objective)
    assert loss.item() == 0
    assert not any(gradient.any() for gradient in gradients.values())


def test_right_predictions_are_never_forgiven() -> None:
    """What a detector says of gold itself is not looked at: it would take easy positions out of the loss."""
    model, plain = mlm()
    prediction = plain.predict(model, BATCH)
    # Gold is what the model predicts, at the first slot of each row.
    gold = torch.cat([prediction.predicted[:, :1], BATCH.gold[:, 1:]], dim=1)
    batch = replace(BATCH, gold=gold)
    is_right = batch.is_masked & (prediction.predicted == gold)
    assert is_right.sum() == 5  # one row has no ordinary token
    correction = HardCorrection(tiny.ConstantDetector(1.0))
    credit, _ = correction.assess(prediction.predicted, batch)
    assert credit.equal((batch.is_masked & ~is_right).float())
    loss = MaskedLM(tiny.make_masking(), correction)(model, batch).terms["mlm"]
    gold_log_p = prediction.logits.whole().log_softmax(-1).gather(2, gold.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(loss, -gold_log_p[is_right].sum(), rtol=1e-6, atol=0)


def test_empty_slots_weigh_nothing() -> None:
    """Whatever the logits at an unused slot, the terms stay as they are."""
    model, objective = mlm(
        correction=HardCorrection(tiny.FractionalDetector(), "down_weight"), regularizers=(SoftRegularization("soft"),)
    )
    prediction = objective.predict(model, BATCH)
    assert not BATCH.is_masked.all()
    logits = prediction.logits.whole()
    noise = torch.randn_like(logits) * ~BATCH.is_masked.unsqueeze(-1)
    changed = type(prediction)(BATCH, WholeLogits(logits + noise), prediction.predicted, prediction.credit)
    before, after = objective.outcome(model, prediction), objective.outcome(model, changed)
    assert {n: v.item() for n, v in after.terms.items()} == {n: v.item() for n, v in before.terms.items()}
    assert {n: v.item() for n, v in after.stats.items()} == {n: v.item() for n, v in before.stats.items()}


@pytest.mark.parametrize("use", ["drop", "down_weight", "soft_targets", "marginal"])
def test_more_credit_never_costs_more(use: str) -> None:
    losses = []
    for credit in (0.0, 0.25, 0.5, 0.75, 1.0):
        model, objective = mlm(correction=HardCorrection(tiny.ConstantDetector(credit), use))
        losses.append(objective(model, BATCH).terms["mlm"].item())
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(
    ("credit", "use", "expected"),
    [
        (0.49, "drop", 2.0),
        (0.5, "drop", 0.0),
        (1.0, "drop", 0.0),
        (0.25, "down_weight", 1.5),
        (1.0, "down_weight", 0.0),
    ],
)
def test_weigh(credit: float, use: str, expected: float) -> None:
    assert weigh(torch.tensor(2.0), torch.tensor(credit), use).item() == expected


def test_corrected_labels() -> None:
    is_replaced = torch.tensor([[False, True, True, True]])
    credit = torch.tensor([[0.0, 0.0, 0.25, 0.75]])
    expected = {
        "original": ([0, 1, 1, 0], [1, 1, 1, 1]),
        "ignore": ([0, 1, 1, 1], [1, 1, 1, 0]),
        "soft": ([0, 1, 0.75, 0.25], [1, 1, 1, 1]),
    }
    for how, (targets, weights) in expected.items():
        found = corrected_labels(is_replaced, credit, how)
        assert [values[0].tolist() for values in found] == [targets, weights]


def test_set_takes_each_token_once() -> None:
    """A detector that lists gold among the substitutes does not count it twice."""

    class ListsGold(Detector):
        def credit(self, gold: Tensor, predicted: Tensor, batch: MaskedRows) -> Tensor:
            return torch.zeros(gold.shape)

        def propose(self, gold: Tensor, predicted: Tensor, batch: MaskedRows) -> Proposals:
            return Proposals(torch.zeros(gold.shape), gold.unsqueeze(-1), torch.ones(*gold.shape, 1))

    model, objective = mlm(correction=HardCorrection(ListsGold(), "marginal"))
    plain = MaskedLM(tiny.make_masking())(model, BATCH).terms["mlm"]
    torch.testing.assert_close(objective(model, BATCH).terms["mlm"], plain, rtol=1e-6, atol=0)


def test_set_moves_mass_to_the_set_and_not_to_gold_alone() -> None:
    """The gradient of each accepted token's logit is p(v) - p(v) a(v) / (mass of the set), by hand."""
    logits = torch.tensor([[[1.0, 2.0, 0.0, -1.0]]], requires_grad=True)
    gold = torch.tensor([[0]])
    batch = MaskedRows(BATCH.rows, gold, gold, gold, torch.tensor([[True]]), torch.tensor([[True]]), torch.zeros(1, 1))
    correction = HardCorrection(TableDetector(tiny.make_table([(0, 1), (0, 3)], vocab_size=4)), "marginal")
    token_loss = -logits.log_softmax(-1)[..., 0]
    credit, proposals = correction.assess(torch.tensor([[2]]), batch)
    few = logits.gather(2, torch.cat([gold.unsqueeze(-1), proposals.tokens], 2))
    correction.masked_lm_loss(token_loss, few, credit, proposals, batch).backward()
    p = logits.detach()[0, 0].softmax(-1)
    accepted = torch.tensor([1.0, 1.0, 0.0, 1.0])
    torch.testing.assert_close(logits.grad[0, 0], p - p * accepted / (p * accepted).sum())


# Soft regularization


def test_right_predictions_have_no_distance() -> None:
    """Exactly: neither value nor gradient, though rounding would leave some of both."""
    model, objective = mlm(regularizers=(SoftRegularization(),))
    prediction = objective.predict(model, BATCH)
    right = type(prediction)(BATCH, prediction.logits, BATCH.gold, prediction.credit)
    term = SoftRegularization()(model, right)
    term.backward()
    assert term.item() == 0
    assert not any(gradient.any() for gradient in tiny.gradients(model).values())


@pytest.mark.parametrize("variant", ["predicted", "soft"])
def test_equal_embeddings_have_no_distance(variant: str) -> None:
    model, objective = mlm(regularizers=(SoftRegularization(variant),))
    with torch.no_grad():
        model.embeddings.copy_(model.embeddings[7].clone().expand_as(model.embeddings))
    assert objective(model, BATCH).terms["sr"].item() == pytest.approx(0, abs=1e-5)
    assert SoftRegularization().expensive_metrics(model)["embedding_cosine"] == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("make", MAKERS)
def test_predicted_embedding_moves_embedding_rows_only(make: Callable[..., Any]) -> None:
    """A best guess has no gradient: the term reaches the rows of gold and predicted tokens, and nothing else."""
    model, objective = make(regularizers=(SoftRegularization(),))
    masked = objective if isinstance(objective, MaskedLM) else objective.generator
    reader = model if isinstance(objective, MaskedLM) else model.generator
    prediction = masked.predict(reader, BATCH)
    objective(model, BATCH).terms["sr"].backward()
    rows_moved = model.embeddings.grad.any(1)
    is_wrong = prediction.is_mispredicted
    touched = torch.cat([prediction.predicted[is_wrong], BATCH.gold[is_wrong]]).unique()
    assert rows_moved.nonzero().flatten().tolist() == touched.tolist()
    table = model.embeddings
    others = [p for p in model.parameters() if p is not table]
    assert not any(p.grad is not None and p.grad.any() for p in others)


@pytest.mark.parametrize("make", MAKERS)
def test_expected_embedding_moves_the_encoder(make: Callable[..., Any]) -> None:
    model, objective = make(regularizers=(SoftRegularization("soft"),))
    objective(model, BATCH).terms["sr"].backward()
    layers = {name: p.grad for name, p in model.named_parameters() if ".layer." in name and p.grad is not None}
    assert sum(bool(gradient.any()) for gradient in layers.values()) > 20


@pytest.mark.parametrize("side", ["gold", "predicted"])
def test_stop_gradient_holds_a_side(side: str) -> None:
    model, objective = mlm(regularizers=(SoftRegularization(stop_gradient=side),))
    prediction = objective.predict(model, BATCH)
    objective(model, BATCH).terms["sr"].backward()
    moved = set(model.embeddings.grad.any(1).nonzero().flatten().tolist())
    is_wrong = prediction.is_mispredicted
    gold, predicted = set(BATCH.gold[is_wrong].tolist()), set(prediction.predicted[is_wrong].tolist())
    assert moved == (predicted if side == "gold" else gold)


@pytest.mark.parametrize("direction", ["predicted-original", "original-predicted"])
def test_sentence_stop_gradient_splits_the_whole_gradient(direction: str) -> None:
    """The two halves, each with the other side held, add up to the gradient with neither."""
    found = {}
    for side in ("none", "original", "predicted"):
        model, objective = mlm(regularizers=(SentenceRegularization(direction, side),))
        objective(model, BATCH).terms["sr_sentence"].backward()
        found[side] = tiny.gradients(model)
    halves = {name: found["original"][name] + found["predicted"][name] for name in found["none"]}
    tiny.assert_same(found["none"], halves, tolerance=1e-4)
    assert all(any(g.any() for g in found[side].values()) for side in found)
    assert any(not g.equal(found["original"][n]) for n, g in found["predicted"].items())


@pytest.mark.parametrize("stop_gradient", ["none", "original", "predicted"])
def test_known_encoding_of_the_filled_text_changes_nothing(stop_gradient: str) -> None:
    """ELECTRA has that encoding already; value and gradient are those of encoding it anew."""
    regularizer = SentenceRegularization(stop_gradient=stop_gradient)
    model, objective = mlm()
    prediction = objective.predict(model, BATCH)
    anew = regularizer(model, prediction)
    anew.backward()
    expected = tiny.gradients(model)
    known = regularizer(model, prediction, model.encode(prediction.filled_ids, BATCH.rows))
    known.backward()
    assert known.item() == pytest.approx(anew.item(), rel=1e-6)
    tiny.assert_same(expected, tiny.gradients(model), tolerance=1e-6)


def test_same_text_has_no_divergence() -> None:
    model, objective = mlm()
    prediction = objective.predict(model, BATCH)
    right = type(prediction)(BATCH, prediction.logits, BATCH.gold, prediction.credit)
    assert SentenceRegularization()(model.eval(), right).item() == 0


def test_uses_are_checked_and_old_names_read() -> None:
    detector = tiny.FractionalDetector()
    with pytest.warns(TruenegDeprecationWarning, match="marginal"):
        assert HardCorrection(detector, "set").use == "marginal"
    with pytest.raises(ConfigError, match=r"objective.correction.use 'margnal': did you mean 'marginal'"):
        HardCorrection(detector, "margnal")
