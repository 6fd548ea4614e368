"""CLINE's terms against Eq. 4 to 7 of Wang et al. 2021, and its released variant, in plain numpy."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from tiny import assert_same, gradients, make_hf_masked_lm, make_masking, make_rows
from trueneg.config.objective_options import ClineConfig
from trueneg.corruption.views.batch import ANTONYM, KEPT, SYNONYM, View, Views
from trueneg.errors import ConfigError
from trueneg.models.semantic import SemanticEncoder
from trueneg.objectives.base import TrainingModule
from trueneg.objectives.cline import Cline
from trueneg.objectives.guard import Trust
from trueneg.objectives.mlm import MaskedLM

SIZES = [[14], [9], [4], [12]]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def make_views(seed: int = 1) -> Views:
    """Four rows with padding; the views differ in some tokens, and one in length."""
    rows = make_rows(SIZES, length=16, seed=seed)
    random = np.random.default_rng(seed)

    def view(label: int, shorter: int) -> View:
        ids, segments = rows.input_ids.clone(), rows.segments.clone()
        is_candidate = torch.from_numpy(random.random(ids.shape) < 0.6) & ~rows.is_special
        labels = torch.where(is_candidate & torch.from_numpy(random.random(ids.shape) < 0.6), label, KEPT)
        ids = torch.where(labels != KEPT, torch.from_numpy(random.integers(5, 300, ids.shape)), ids)
        segments[0, 16 - shorter :] = 0
        ids[0, 16 - shorter :] = 0
        labels[0, 16 - shorter :] = KEPT
        return View(ids, segments, labels, is_candidate)

    return Views(rows, view(SYNONYM, 2), view(ANTONYM, 1))


def make(architecture: str = "bert", **options: Any) -> tuple[SemanticEncoder, Cline]:
    config = ClineConfig(**options)
    is_released = config.variant == "released"
    model = SemanticEncoder(make_hf_masked_lm(architecture), 3 if is_released else 1, is_released).eval()
    objective = Cline(MaskedLM(make_masking(rate=0.3)), config)
    with torch.no_grad():
        objective.log_scales.copy_(torch.tensor([0.3, -0.2, 0.7])[: len(objective.terms)])
    return model, objective


def alone(model: SemanticEncoder, ids: torch.Tensor, segments: torch.Tensor) -> np.ndarray:
    """Hidden states of each row read by itself, without padding: ``[rows, length, hidden]``, zero at padding."""
    found = np.zeros((*ids.shape, model.model.config.hidden_size))
    for row, (line, piece) in enumerate(zip(ids, segments, strict=True)):
        num = int((piece > 0).sum())
        found[row, :num] = model.model.base_model(input_ids=line[None, :num]).last_hidden_state[0].double().numpy()
    return found


@pytest.mark.parametrize("architecture", ["bert", "roberta", "electra", "modernbert"])
def test_the_papers_terms(architecture: str) -> None:
    model, objective = make(architecture)
    views = make_views()
    batch = objective.corrupt(views)
    with torch.no_grad():
        outcome, counts = objective(model, batch), objective.counts(batch)
        hidden = [alone(model, batch.masked.input_ids, views.rows.segments)]
        hidden += [alone(model, view.input_ids, view.segments) for view in (views.synonym, views.antonym)]
        weight = model.replaced_head.weight[0].double().numpy()  # type: ignore[union-attr]
        bias = float(model.replaced_head.bias)  # type: ignore[arg-type]
    detection = 0.0
    for states, view in zip(hidden[1:], (views.synonym, views.antonym), strict=True):
        is_text = view.segments.numpy() > 0
        replaced = view.labels.numpy() != KEPT
        p = sigmoid(states @ weight + bias)
        detection -= (np.where(replaced, np.log(p), np.log(1 - p)) * is_text).sum()  # Eq. 4
    first = [states[:, 0] for states in hidden]
    near, far = (np.exp((first[0] * other).sum(1)) for other in first[1:])  # Eq. 5
    contrast = -np.log(near / (near + far)).sum()  # Eq. 6
    assert float(outcome.stats["raw_rtd"]) == pytest.approx(detection, rel=1e-4)
    assert float(outcome.stats["raw_contrast"]) == pytest.approx(contrast, rel=1e-4, abs=1e-5)
    for name, scale in zip(("mlm", "rtd", "contrast"), (0.3, -0.2, 0.7), strict=True):
        raw = float(outcome.stats[f"raw_{name}"])
        assert float(outcome.terms[name]) == pytest.approx(math.exp(-scale) * raw, rel=1e-5), "Eq. 7"
    assert float(outcome.terms["balance"] / counts["balance"]) == pytest.approx(0.8, rel=1e-5)
    num_tokens = sum(int((view.segments > 0).sum()) for view in (views.synonym, views.antonym))
    assert (float(counts["rtd"]), float(counts["contrast"])) == (num_tokens, 4)


@pytest.mark.parametrize("negatives", ["antonyms", "random"])
def test_the_original_of_eq_5_and_6_is_the_clean_text(negatives: str) -> None:
    model, objective = make(original="clean", negatives=negatives)
    masked_objective = make(negatives=negatives)[1]
    views = make_views()
    batch = objective.corrupt(views)
    with torch.no_grad():
        ours, masked = objective(model, batch), masked_objective(model, batch)
        first = [
            alone(model, rows.input_ids, rows.segments)[:, 0] for rows in (views.rows, views.synonym, views.antonym)
        ]
    if negatives == "random":
        first[2] = first[0][[3, 0, 1, 2]]
    near, far = (np.exp((first[0] * other).sum(1)) for other in first[1:])
    contrast = -np.log(near / (near + far)).sum()
    assert float(ours.stats["raw_contrast"]) == pytest.approx(contrast, rel=1e-4, abs=1e-5)
    assert abs(float(masked.stats["raw_contrast"]) - contrast) > 1e-3
    for name in ("mlm", "rtd"):
        torch.testing.assert_close(ours.terms[name], masked.terms[name], rtol=1e-5, atol=1e-5)


def test_the_masked_lm_is_that_of_masked_lm_alone() -> None:
    model, objective = make(weights="fixed")
    views = make_views()
    batch = objective.corrupt(views)
    plain = objective.masked_lm
    with torch.no_grad():
        ours = objective(model, batch)
        theirs = plain(model, plain.corrupt(views.rows))
    assert float(ours.terms["mlm"]) == pytest.approx(float(theirs.terms["mlm"]), rel=1e-5)
    assert float(ours.stats["num_masked"]) == float(theirs.stats["num_masked"])


def test_the_released_variant() -> None:
    model, objective = make(variant="released")
    views = make_views()
    batch = objective.corrupt(views)
    with torch.no_grad():
        outcome, counts = objective(model, batch), objective.counts(batch)
        hidden = [alone(model, batch.masked.input_ids, views.rows.segments)]
        hidden += [alone(model, view.input_ids, view.segments) for view in (views.synonym, views.antonym)]
        assert model.pooler is not None
        pooled = [torch.tanh(model.pooler(torch.from_numpy(h[:, 0]).float())).double().numpy() for h in hidden]
        scores = [model.replaced_head(torch.from_numpy(h).float()).double().numpy() for h in hidden[1:]]
    near, far = ((pooled[0] * other).mean(1) for other in pooled[1:])
    contrast = -(np.log(sigmoid(near)) + np.log(1 - sigmoid(far)))
    assert float(outcome.stats["raw_contrast"]) == pytest.approx(contrast.sum(), rel=1e-4)
    assert (contrast >= 2 * math.log(1 + math.exp(-1)) - 1e-9).all(), "0.313 nats a pair are left whatever it learns"
    detection, num = 0.0, 0
    for logits, view in zip(scores, (views.synonym, views.antonym), strict=True):
        judged = view.is_candidate.numpy() & (view.segments.numpy() > 0)
        log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        detection -= (np.take_along_axis(log_p, view.labels.numpy()[..., None], -1)[..., 0] * judged).sum()
        num += int(judged.sum())
    assert float(outcome.stats["raw_rtd"]) == pytest.approx(detection, rel=1e-4)
    assert float(counts["rtd"]) == num
    assert float(outcome.terms["balance"]) == pytest.approx((0.3 + 0.7) * 4), "max(s, 0)"


def test_what_is_left_out_is_left_out() -> None:
    views = make_views()
    for options, names in (
        ({"rtd": False}, {"mlm", "contrast", "balance"}),
        ({"contrast": False, "weights": "fixed"}, {"mlm", "rtd"}),
    ):
        model, objective = make(**options)
        batch = objective.corrupt(views)
        assert objective(model, batch).terms.keys() == objective.counts(batch).keys() == names


def test_random_negatives_are_other_rows() -> None:
    model, objective = make(negatives="random", rtd=False, weights="fixed")
    views = make_views()
    batch = objective.corrupt(views)
    assert len(batch.views) == 1
    with torch.no_grad():
        found = float(objective(model, batch).terms["contrast"])
        original = torch.from_numpy(alone(model, batch.masked.input_ids, views.rows.segments)[:, 0])
        synonym = torch.from_numpy(alone(model, views.synonym.input_ids, views.synonym.segments)[:, 0])
    near = (original * synonym).sum(1)
    far = (original * original[[3, 0, 1, 2]]).sum(1)
    assert found == pytest.approx(float(torch.nn.functional.softplus(far - near).sum()), rel=1e-4)


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_a_text_is_not_its_own_negative(variant: str) -> None:
    """Nothing in it was replaced, or no other row stands beside it."""
    model, objective = make(variant=variant, weights="fixed")
    views = make_views()
    unchanged = views.antonym.labels.clone()
    unchanged[1] = KEPT
    parts = [objective.corrupt(v) for v in (views, replace(views, antonym=replace(views.antonym, labels=unchanged)))]
    with torch.no_grad():
        whole, without = (objective(model, batch) for batch in parts)
        rows = [
            replace(objective.corrupt(views), trust=Trust(torch.eye(4)[:, [row]], torch.tensor(False), torch.zeros(())))
            for row in range(4)
        ]
        each = [float(objective(model, batch).terms["contrast"]) for batch in rows]
    assert float(whole.terms["contrast"]) == pytest.approx(sum(each), rel=1e-5)
    assert float(without.terms["contrast"]) == pytest.approx(sum(each) - each[1], rel=1e-5)
    assert float(without.stats["raw_contrast"]) == pytest.approx(sum(each) - each[1], rel=1e-5)
    assert [float(objective.counts(batch)["contrast"]) for batch in parts] == [4, 3]
    assert [float(one.stats["num_without_negative"]) for one in (whole, without)] == [0, 1]


def test_a_row_alone_has_no_random_negative() -> None:
    model, objective = make(variant="released", negatives="random", weights="fixed")
    rows = make_rows(SIZES[:1], length=16, seed=0)
    kept = torch.zeros_like(rows.input_ids)
    view = View(rows.input_ids, rows.segments, kept, kept.bool())
    batch = objective.corrupt(Views(rows, view, view))
    assert float(objective(model, batch).terms["contrast"]) == float(objective.counts(batch)["contrast"]) == 0


def test_cosine_temperature_and_negatives_of_the_batch() -> None:
    model, objective = make(similarity="cosine", temperature=0.1, in_batch_negatives=True, weights="fixed")
    views = make_views()
    batch = objective.corrupt(views)
    with torch.no_grad():
        found = float(objective(model, batch).terms["contrast"])
        states = [alone(model, batch.masked.input_ids, views.rows.segments)[:, 0]]
        states += [alone(model, v.input_ids, v.segments)[:, 0] for v in (views.synonym, views.antonym)]
    ori, syn, ant = (s / np.linalg.norm(s, axis=1, keepdims=True) for s in states)
    expected = 0.0
    for row in range(4):
        others = [n for n in range(4) if n != row]
        similar = np.concatenate(
            [[ori[row] @ syn[row], ori[row] @ ant[row]], syn[others] @ ori[row], ori[others] @ ori[row]]
        )
        expected -= similar[0] / 0.1 - np.log(np.exp(similar / 0.1).sum())
    assert found == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("architecture", ["bert", "modernbert"])
def test_contrast_of_means_over_text(architecture: str) -> None:
    model, objective = make(architecture, pooling="mean", weights="fixed")
    views = make_views()
    batch = objective.corrupt(views)
    with torch.no_grad():
        found = float(objective(model, batch).terms["contrast"])
        read = [(batch.masked.input_ids, views.rows.segments)]
        read += [(view.input_ids, view.segments) for view in (views.synonym, views.antonym)]
        # ``alone`` is zero at padding: a sum over all is one over text.
        ori, syn, ant = (
            alone(model, ids, segments).sum(1) / (segments > 0).sum(1, keepdim=True).numpy() for ids, segments in read
        )
    expected = np.log1p(np.exp((ori * ant).sum(1) - (ori * syn).sum(1))).sum()
    assert found == pytest.approx(float(expected), rel=1e-4)


def test_large_dot_products_do_not_overflow() -> None:
    model, objective = make(weights="fixed")
    with torch.no_grad():
        for name, parameter in model.model.named_parameters():
            if name.endswith("layer.1.output.LayerNorm.weight"):
                parameter.fill_(100.0)
    outcome = objective(model, objective.corrupt(make_views()))
    assert all(bool(value.isfinite()) for value in outcome.terms.values())


@pytest.mark.parametrize("variant", ["paper", "released"])
def test_micro_batches_add_up_to_the_step(variant: str) -> None:
    """Also the learned weights' own term: their gradient does not depend on how a step is cut."""
    model, objective = make(variant=variant)
    module = TrainingModule(model, objective)
    views = make_views()

    def part(chosen: slice) -> Views:
        def cut(view: View) -> View:
            return view._map(lambda tensor: tensor[chosen])

        return Views(views.rows._map(lambda tensor: tensor[chosen]), cut(views.synonym), cut(views.antonym))

    whole = objective.corrupt(views)
    counts = objective.counts(whole)
    module(whole, counts)[0].backward()
    expected = gradients(module)
    for chosen in (slice(0, 1), slice(1, 4)):
        module(objective.corrupt(part(chosen)), counts)[0].backward()
    assert_same(expected, gradients(module), 2e-5)
    assert float(expected["objective.log_scales"].abs().max()) > 0


def test_options_of_one_variant_are_not_of_the_other() -> None:
    from tiny import make_tokenizer
    from trueneg.config.objective_options import ObjectiveConfig
    from trueneg.objectives.cline import ClineKind

    make_objective = ClineKind().make_objective

    config = ObjectiveConfig(name="cline", cline=ClineConfig(variant="released"))
    make_objective(config, make_tokenizer(), 300)
    with pytest.raises(ConfigError, match=r"of cline.variant=paper"):
        make_objective(
            replace(config, cline=ClineConfig(variant="released", similarity="cosine")), make_tokenizer(), 300
        )
