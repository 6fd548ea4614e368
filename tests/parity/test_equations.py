"""The paper's equations in plain numpy (Zhang et al. 2023, section 3, appendix A, section 5), against ours.

The reference takes logits from transformers' own forward pass, at every position, in float64, and walks over
positions one by one.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import tiny
from trueneg.corruption.rows import MaskedRows
from trueneg.detectors.base import Detector
from trueneg.detectors.table import TableDetector
from trueneg.objectives.base import TrainingModule
from trueneg.objectives.correction import HardCorrection
from trueneg.objectives.mlm import MaskedLM
from trueneg.objectives.regularization import SentenceRegularization, SoftRegularization, mean_pairwise_cosine
from trueneg.objectives.rtd import ReplacedTokenDetection

Floats = NDArray[np.float64]
MODEL = tiny.make_masked_lm().eval()
BATCH = tiny.padded_batch()


def log_softmax(values: Floats) -> Floats:
    shifted = values - values.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def masked_positions(batch: MaskedRows) -> list[tuple[int, int]]:
    """(row, column) of every masked position."""
    slots = zip(*torch.where(batch.is_masked), strict=True)
    return [(int(row), int(batch.positions[row, slot])) for row, slot in slots]


def log_probabilities(batch: MaskedRows) -> Floats:
    with torch.no_grad():
        logits = MODEL.model(input_ids=batch.input_ids, attention_mask=(batch.rows.segments > 0).long()).logits
    return log_softmax(logits.double().numpy())


POSITIONS = masked_positions(BATCH)
LOG_P = log_probabilities(BATCH)
GOLD = [int(BATCH.rows.input_ids[place]) for place in POSITIONS]
BEST = [int(LOG_P[place].argmax()) for place in POSITIONS]
NLL = [-LOG_P[place][gold] for place, gold in zip(POSITIONS, GOLD, strict=True)]
WHOLE = [bool(BATCH.rows.is_whole_word[place]) for place in POSITIONS]

# Every second misprediction is a synonym; each such word has other synonyms too.
WRONG = [k for k in range(len(POSITIONS)) if BEST[k] != GOLD[k]]
SYNONYMS: dict[int, set[int]] = {}
for _k in WRONG[::2]:
    SYNONYMS.setdefault(GOLD[_k], set()).update({BEST[_k], 7, tiny.VOCAB_SIZE - 1} - {GOLD[_k]})
TABLE = tiny.make_table((gold, other) for gold, others in SYNONYMS.items() for other in others)


def is_corrected(k: int) -> bool:
    return WHOLE[k] and BEST[k] in SYNONYMS.get(GOLD[k], set())


def fraction(k: int) -> float:
    """Credit of ``tiny.FractionalDetector`` at a masked position."""
    return (7 * GOLD[k] + 3 * BEST[k] + POSITIONS[k][1]) % 11 / 10 if BEST[k] != GOLD[k] else 0.0


def mlm_loss(correction: HardCorrection | None) -> float:
    objective = MaskedLM(tiny.make_masking(), correction)
    return TrainingModule(MODEL, objective)(BATCH, objective.counts(BATCH))[0].item()


def test_material() -> None:
    """There is something of every kind to be told apart."""
    corrected = [k for k in range(len(POSITIONS)) if is_corrected(k)]
    assert 2 <= len(corrected) < len(WRONG)
    assert any(not WHOLE[k] and BEST[k] in SYNONYMS.get(GOLD[k], set()) for k in WRONG)
    fractions = {fraction(k) for k in WRONG}
    assert min(fractions) < 0.5 <= max(fractions)


def test_eq_1() -> None:
    assert mlm_loss(None) == pytest.approx(sum(NLL) / len(NLL), rel=1e-6)


def test_eq_2_drop() -> None:
    expected = sum(loss for k, loss in enumerate(NLL) if not is_corrected(k)) / len(NLL)
    assert mlm_loss(HardCorrection(TableDetector(TABLE))) == pytest.approx(expected, rel=1e-6)


def test_eq_2_drop_over_what_is_kept() -> None:
    kept = [loss for k, loss in enumerate(NLL) if not is_corrected(k)]
    ours = mlm_loss(HardCorrection(TableDetector(TABLE), denominator="kept"))
    assert ours == pytest.approx(sum(kept) / len(kept), rel=1e-6)


def test_eq_2_drop_with_fractional_credit_rounds_it() -> None:
    expected = sum(loss for k, loss in enumerate(NLL) if fraction(k) < 0.5) / len(NLL)
    assert mlm_loss(HardCorrection(tiny.FractionalDetector())) == pytest.approx(expected, rel=1e-6)


def test_weigh() -> None:
    expected = sum((1 - fraction(k)) * loss for k, loss in enumerate(NLL)) / len(NLL)
    assert mlm_loss(HardCorrection(tiny.FractionalDetector(), "down_weight")) == pytest.approx(expected, rel=1e-6)


def test_set_over_a_table() -> None:
    """The whole row of the table counts, predicted or not."""
    losses = [
        -np.logaddexp.reduce(
            [LOG_P[place][v] for v in {GOLD[k]} | (SYNONYMS.get(GOLD[k], set()) if WHOLE[k] else set())]
        )
        for k, place in enumerate(POSITIONS)
    ]
    expected = sum(losses) / len(losses)
    assert expected < sum(NLL) / len(NLL) - 0.1
    assert mlm_loss(HardCorrection(TableDetector(TABLE), "marginal")) == pytest.approx(expected, rel=1e-6)


def test_soft_over_a_table() -> None:
    """The target is spread evenly over gold and its row of the table."""
    losses = []
    for k, place in enumerate(POSITIONS):
        accepted = {GOLD[k]} | (SYNONYMS.get(GOLD[k], set()) if WHOLE[k] else set())
        losses.append(-np.mean([LOG_P[place][v] for v in sorted(accepted)]))
    ours = mlm_loss(HardCorrection(TableDetector(TABLE), "soft_targets"))
    assert ours == pytest.approx(sum(losses) / len(losses), rel=1e-6)
    assert abs(ours - sum(NLL) / len(NLL)) > 0.01


def test_soft_with_fractional_credit() -> None:
    losses = [
        -(LOG_P[place][GOLD[k]] + fraction(k) * LOG_P[place][BEST[k]] * (BEST[k] != GOLD[k]))
        / (1 + fraction(k) * (BEST[k] != GOLD[k]))
        for k, place in enumerate(POSITIONS)
    ]
    ours = mlm_loss(HardCorrection(tiny.FractionalDetector(), "soft_targets"))
    assert ours == pytest.approx(sum(losses) / len(losses), rel=1e-6)


def test_set_with_fractional_credit() -> None:
    """Without a list of substitutes there is the prediction, weighed by its credit."""
    losses = [
        -np.log(np.exp(LOG_P[place][GOLD[k]]) + fraction(k) * np.exp(LOG_P[place][BEST[k]]))
        for k, place in enumerate(POSITIONS)
    ]
    ours = mlm_loss(HardCorrection(tiny.FractionalDetector(), "marginal"))
    assert ours == pytest.approx(sum(losses) / len(losses), rel=1e-6)


def regularized(regularizer: SoftRegularization | SentenceRegularization) -> float:
    objective = MaskedLM(tiny.make_masking(), regularizers=[regularizer])
    value = objective(MODEL, BATCH).terms[regularizer.term] / objective.counts(BATCH)[regularizer.term]
    return value.item()


@pytest.mark.parametrize("variant", ["predicted", "soft"])
def test_eq_3(variant: str) -> None:
    table = MODEL.embeddings.detach().double().numpy()
    distances = []
    for k, place in enumerate(POSITIONS):
        e_gold = table[GOLD[k]]
        e_other = table[BEST[k]] if variant == "predicted" else np.exp(LOG_P[place]) @ table
        distances.append(1 - e_gold @ e_other / (np.linalg.norm(e_gold) * np.linalg.norm(e_other)))
    assert regularized(SoftRegularization(variant)) == pytest.approx(sum(distances) / len(distances), rel=2e-6)


@pytest.mark.parametrize("direction", ["predicted-original", "original-predicted"])
@pytest.mark.parametrize("stop_gradient", ["none", "original", "predicted"])
def test_sentence_kl(direction: str, stop_gradient: str) -> None:
    filled = BATCH.rows.input_ids.clone()
    for k, place in enumerate(POSITIONS):
        filled[place] = BEST[k]
    mask = (BATCH.rows.segments > 0).long()

    def encode(ids: torch.Tensor) -> Floats:
        with torch.no_grad():
            hidden = MODEL.model.base_model(input_ids=ids, attention_mask=mask).last_hidden_state
        return log_softmax(hidden.double().numpy())

    first, second = encode(filled), encode(BATCH.rows.input_ids)
    if direction == "original-predicted":
        first, second = second, first
    is_token = mask.numpy() > 0
    expected = (np.exp(first) * (first - second)).sum(-1)[is_token].sum() / is_token.sum()
    assert expected > 0.01
    assert regularized(SentenceRegularization(direction, stop_gradient)) == pytest.approx(expected, rel=1e-5)


def test_mean_pairwise_cosine() -> None:
    table = np.random.default_rng(0).normal(0.5, 1, (20, 4))
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)
    expected = np.mean([unit[i] @ unit[j] for i in range(20) for j in range(20) if i != j])
    with_padding = torch.from_numpy(np.vstack([table, np.zeros((1, 4))])).float()
    assert mean_pairwise_cosine(with_padding) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("how", ["original", "ignore", "soft"])
@pytest.mark.parametrize("detector", ["table", "fractional"])
def test_discriminator_labels(how: str, detector: str) -> None:
    """Appendix A: an accepted replacement is "the original word instead of the replaced one"."""
    pair = tiny.make_electra().eval()
    generator = MaskedLM(tiny.make_masking(), prediction="sampled")
    sampled = generator.predict(pair.generator, BATCH).filled_ids
    drawn = [int(sampled[place]) for place in POSITIONS]
    pairs = {(GOLD[k], drawn[k]) for k in range(0, len(drawn), 2) if GOLD[k] != drawn[k]}

    def credit(k: int) -> float:
        if GOLD[k] == drawn[k]:
            return 0.0
        if detector == "fractional":
            return (7 * GOLD[k] + 3 * drawn[k] + POSITIONS[k][1]) % 11 / 10
        return float(WHOLE[k] and (GOLD[k], drawn[k]) in pairs)

    targets = np.zeros(tuple(sampled.shape))
    weights = (BATCH.rows.segments > 0).numpy().astype(float)
    num_tokens = weights.sum()
    for k, place in enumerate(POSITIONS):
        is_replaced = float(drawn[k] != GOLD[k])
        is_accepted = credit(k) >= 0.5
        targets[place] = {
            "original": is_replaced * (not is_accepted),
            "ignore": is_replaced,
            "soft": is_replaced * (1 - credit(k)),
        }[how]
        weights[place] *= how != "ignore" or not is_accepted
    with torch.no_grad():
        logits = (
            pair.discriminator.model(input_ids=sampled, attention_mask=(BATCH.rows.segments > 0).long())
            .logits.double()
            .numpy()
        )
    entropy = np.logaddexp(0, logits) - targets * logits
    expected = (entropy * weights).sum() / num_tokens

    chosen: Detector = TableDetector(tiny.make_table(pairs)) if detector == "table" else tiny.FractionalDetector()
    corrected = MaskedLM(tiny.make_masking(), HardCorrection(chosen, discriminator=how), prediction="sampled")
    objective = ReplacedTokenDetection(corrected)
    ours_targets, ours_weights = objective.labels(corrected.predict(pair.generator, BATCH))
    np.testing.assert_allclose(ours_targets.numpy() * (weights > 0), targets * (weights > 0), atol=1e-7)
    np.testing.assert_array_equal(ours_weights.numpy(), weights)
    value = (objective(pair, BATCH).terms["rtd"] / objective.counts(BATCH)["rtd"]).item()
    assert value == pytest.approx(expected, rel=1e-6)
    plain = ReplacedTokenDetection(generator)
    assert abs(value - (plain(pair, BATCH).terms["rtd"] / num_tokens).item()) > 1e-3


def synonyms_of(best: dict[tuple[int, int], int], gold: dict[tuple[int, int], int]) -> set[tuple[int, int]]:
    """Accepted pairs: every second wrong best guess."""
    wrong = [place for place in best if best[place] != gold[place]]
    return {(gold[place], best[place]) for place in wrong[::2]}


@pytest.mark.parametrize("how", ["original", "position", "ignore", "soft"])
def test_appendix_a_with_the_best_guess_judged_and_a_drawn_token_read(how: str) -> None:
    """Section 3.2: r_k is the generator's argmax; the discriminator reads draws, and a label is of the token it reads.

    Some draws are r_k, some another accepted word, some junk where r_k is accepted: the reference tells them apart.
    """
    pair = tiny.make_electra().eval()
    # With a low temperature many draws are the best guess, and many are not.
    generator = MaskedLM(tiny.make_masking(), prediction="sampled", temperature=0.4)
    sampled = generator.predict(pair.generator, BATCH).filled_ids
    mask = (BATCH.rows.segments > 0).long()
    with torch.no_grad():
        logits = pair.generator.model(input_ids=BATCH.input_ids, attention_mask=mask).logits.double().numpy()
        said = pair.discriminator.model(input_ids=sampled, attention_mask=mask).logits.double().numpy()
    log_p = log_softmax(logits)
    gold = {place: int(BATCH.rows.input_ids[place]) for place in POSITIONS}
    best = {place: int(log_p[place].argmax()) for place in POSITIONS}
    drawn = {place: int(sampled[place]) for place in POSITIONS}
    pairs = synonyms_of(best, gold)
    found = {p for p in POSITIONS if bool(BATCH.rows.is_whole_word[p]) and (gold[p], best[p]) in pairs}
    assert any(drawn[p] == best[p] for p in found) and any(drawn[p] not in (best[p], gold[p]) for p in found)

    targets, weights = np.zeros(tuple(sampled.shape)), mask.numpy().astype(float)
    num_tokens = weights.sum()
    for place in POSITIONS:
        is_forgiven = place in found and (how == "position" or drawn[place] == best[place])
        targets[place] = float(drawn[place] != gold[place])
        if is_forgiven:
            targets[place] = 1.0 if how == "ignore" else 0.0
            weights[place] = how != "ignore"
    entropy = (np.logaddexp(0, said) - targets * said) * weights
    losses = [-log_p[place][gold[place]] for place in POSITIONS if place not in found]

    correction = HardCorrection(TableDetector(tiny.make_table(pairs)), discriminator=how)
    sr, sentence = SoftRegularization(), SentenceRegularization()
    masked_lm = MaskedLM(
        tiny.make_masking(), correction, [sr, sentence], prediction="sampled", temperature=0.4, judged="argmax"
    )
    objective = ReplacedTokenDetection(masked_lm)
    outcome = objective(pair, BATCH)
    assert outcome.terms["rtd"].item() == pytest.approx(entropy.sum(), rel=1e-5)
    assert objective.counts(BATCH)["rtd"] == num_tokens
    assert outcome.terms["mlm"].item() == pytest.approx(sum(losses), rel=1e-6)
    assert outcome.stats["num_corrected"] == len(found)

    table = pair.embeddings.detach().double().numpy()
    unit = table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-12)
    distances = [1 - unit[gold[p]] @ unit[best[p]] for p in POSITIONS]  # Eq. 3, with r_k
    assert outcome.terms["sr"].item() == pytest.approx(sum(distances), rel=1e-5)

    predicted = BATCH.rows.input_ids.clone()  # s_p of section 5: the sentence with r_k in it
    for place in POSITIONS:
        predicted[place] = best[place]
    with torch.no_grad():
        h_p, h_s = (
            log_softmax(
                pair.discriminator.model.base_model(input_ids=ids, attention_mask=mask)
                .last_hidden_state.double()
                .numpy()
            )
            for ids in (predicted, BATCH.rows.input_ids)
        )
    divergence = ((np.exp(h_p) * (h_p - h_s)).sum(-1) * mask.numpy()).sum()
    assert outcome.terms["sr_sentence"].item() == pytest.approx(divergence, rel=1e-5)


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_footnote_13(temperature: float) -> None:
    """A softmax temperature in the loss, against torch's cross-entropy of transformers' own logits."""
    with torch.no_grad():
        logits = MODEL.model(input_ids=BATCH.input_ids, attention_mask=(BATCH.rows.segments > 0).long()).logits
    places = tuple(torch.tensor(POSITIONS).T)
    gold = torch.tensor(GOLD)
    expected = torch.nn.functional.cross_entropy(logits[places] / temperature, gold).item()
    objective = MaskedLM(tiny.make_masking(), loss_temperature=temperature)
    outcome = objective(MODEL, BATCH)
    assert outcome.terms["mlm"].item() / len(GOLD) == pytest.approx(expected, rel=1e-6)
    assert outcome.stats["gold_loss"].item() == pytest.approx(sum(NLL), rel=1e-6), "the plain loss"


@pytest.mark.parametrize("use", ["drop", "down_weight", "marginal", "soft_targets"])
def test_footnote_13_with_a_correction(use: str) -> None:
    """Every correction's loss is of the tempered distribution; what is corrected is not."""
    log_p = log_softmax(
        MODEL.model(input_ids=BATCH.input_ids, attention_mask=(BATCH.rows.segments > 0).long())
        .logits.detach()
        .double()
        .numpy()
        / 2
    )
    losses = []
    for k, place in enumerate(POSITIONS):
        others = sorted(SYNONYMS.get(GOLD[k], set()) - {GOLD[k]} if WHOLE[k] else set())
        gold = log_p[place][GOLD[k]]
        accepted = [gold, *(log_p[place][v] for v in others)]
        losses.append(
            {
                "drop": 0.0 if is_corrected(k) else -gold,
                "down_weight": 0.0 if is_corrected(k) else -gold,
                "marginal": -np.logaddexp.reduce(accepted),
                "soft_targets": -np.mean(accepted),
            }[use]
        )
    objective = MaskedLM(tiny.make_masking(), HardCorrection(TableDetector(TABLE), use), loss_temperature=2.0)
    assert objective(MODEL, BATCH).terms["mlm"].item() == pytest.approx(sum(losses), rel=1e-6)
