"""Logits in chunks against logits that are whole, against transformers' own, and by the size of what is made."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from tiny_checkpoints import ARCHITECTURES, DEBERTA, make_masked_lm
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from trueneg.models.backbone import MaskedLanguageModel
from trueneg.models.logits import ChunkedLogits, Logits, WholeLogits, logits_of, padded
from trueneg.objectives.prediction import predict

ROWS, SLOTS, WIDTH, VOCAB = 3, 7, 12, 301
HEADS = [(name, {}) for name in ARCHITECTURES] + [(name, {"legacy": False}) for name in DEBERTA]
MB = 2**20 / 4
"""Numbers of a MiB."""


class Head:
    """A product with random numbers, of which every gradient can be read."""

    def __init__(self, vocab: int = VOCAB, dtype: torch.dtype = torch.float32, multiple: int = 1) -> None:
        torch.manual_seed(0)
        self.hidden = torch.randn(ROWS, SLOTS, WIDTH).to(dtype).requires_grad_()
        self.weight = torch.randn(vocab, WIDTH).to(dtype).requires_grad_()
        self.bias = torch.randn(vocab).to(dtype).requires_grad_()
        self.table = torch.randn(vocab, 5).requires_grad_()
        self.gold = torch.randint(vocab, (ROWS, SLOTS))
        self.others = torch.randint(vocab, (ROWS, SLOTS, 4))
        self.others[..., 0] = self.gold  # whatever lists gold and one token twice
        self.others[..., 1] = self.others[..., 2]
        self.draws = torch.rand(ROWS, SLOTS)
        self.multiple = multiple

    def logits(self, num: int | None, temperature: float = 1.0) -> Logits:
        """In chunks of so many numbers, or whole."""
        weight, bias = padded(self.weight, self.bias, self.multiple)
        if num is None:
            return WholeLogits(functional.linear(self.hidden, weight, bias).float(), len(self.weight))
        return ChunkedLogits(self.hidden, weight, bias, num / MB, len(self.weight), (1.0, temperature))

    def gradients(self, *values: Tensor) -> list[Tensor]:
        """Of some function of all values."""
        torch.manual_seed(1)
        total = torch.stack([(value * torch.randn_like(value)).sum() for value in values]).sum()
        total.backward()
        wanted = (self.hidden, self.weight, self.bias, self.table)
        found = [torch.zeros_like(t) if t.grad is None else t.grad for t in wanted]
        for tensor in wanted:
            tensor.grad = None
        return found


def same(left: Tensor | None, right: Tensor | None, tolerance: float = 2e-6) -> None:
    assert left is not None and right is not None
    torch.testing.assert_close(left, right, rtol=tolerance, atol=tolerance * max(1.0, float(right.abs().max())))


@pytest.mark.parametrize("num", [1, VOCAB, 4 * VOCAB + 5, 10 * VOCAB, 10**9])
@pytest.mark.parametrize("temperature", [1.0, 0.7, 3.0])
@pytest.mark.parametrize("lists", [False, True])
def test_losses_and_gradients_of_chunks_are_those_of_the_whole(num: int, temperature: float, lists: bool) -> None:
    head = Head()
    found = []
    for size in (None, num):
        loss, few = head.logits(size, temperature).losses(head.gold, head.others if lists else None, temperature)
        found.append((loss, few, head.gradients(*([loss, few] if lists else [loss]))))
    (loss, few, gradients), (chunked_loss, chunked_few, chunked_gradients) = found
    same(chunked_loss, loss)
    if lists:
        same(chunked_few, few)
    else:
        assert chunked_few is few is None
    for ours, theirs in zip(chunked_gradients, gradients, strict=True):
        same(ours, theirs)


@pytest.mark.parametrize("num", [1, 4 * VOCAB + 5])
def test_losses_are_those_of_the_equation_in_float64(num: int) -> None:
    head, temperature = Head(), 0.7
    loss, few = head.logits(num).losses(head.gold, head.others, temperature)
    hidden, weight, bias = (t.detach().double().numpy() for t in (head.hidden, head.weight, head.bias))
    logits = (hidden @ weight.T + bias) / temperature
    shifted = np.exp(logits - logits.max(-1, keepdims=True))
    p = shifted / shifted.sum(-1, keepdims=True)
    gold = head.gold.numpy()[..., None]
    np.testing.assert_allclose(loss.detach(), -np.log(np.take_along_axis(p, gold, -1))[..., 0], rtol=2e-6, atol=2e-6)
    tokens = np.concatenate([gold, head.others.numpy()], -1)
    assert few is not None
    np.testing.assert_allclose(few.detach(), np.take_along_axis(logits, tokens, -1), rtol=2e-6, atol=2e-6)
    # The gradient of -log p(gold), by hand: (p - [gold]) / temperature at each logit.
    of_logits = p.copy()
    np.put_along_axis(of_logits, gold, np.take_along_axis(p, gold, -1) - 1, -1)
    of_logits /= temperature
    loss.sum().backward()
    assert head.hidden.grad is not None and head.weight.grad is not None and head.bias.grad is not None
    np.testing.assert_allclose(head.hidden.grad, of_logits @ weight, rtol=2e-5, atol=1e-5)
    np.testing.assert_allclose(head.weight.grad, np.einsum("bsv,bsh->vh", of_logits, hidden), rtol=2e-5, atol=1e-5)
    np.testing.assert_allclose(head.bias.grad, of_logits.sum((0, 1)), rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("num", [1, 4 * VOCAB + 5, 10**9])
@pytest.mark.parametrize("multiple", [1, 256])
def test_expectations_and_their_gradients_are_those_of_the_whole(num: int, multiple: int) -> None:
    """Through the distribution, through the table, and through both where they are one and the same."""
    head = Head(multiple=multiple)
    for is_tied in (False, True):
        found = []
        for size in (None, num):
            expected = head.logits(size).expected(head.weight if is_tied else head.table)
            found.append((expected, head.gradients(expected)))
        same(found[1][0], found[0][0])
        for ours, theirs in zip(found[1][1], found[0][1], strict=True):
            same(ours, theirs)
        assert bool(found[1][1][3].any()) != is_tied


@pytest.mark.parametrize("num", [VOCAB, 4 * VOCAB + 5, 10**9])
@pytest.mark.parametrize(("prediction", "temperature"), [("argmax", 1.0), ("sampled", 1.0), ("sampled", 0.6)])
@pytest.mark.parametrize("multiple", [1, 256])
def test_predictions_are_the_same_function_of_logits_and_draws(
    num: int, prediction: Any, temperature: float, multiple: int
) -> None:
    """Token for token: numbers in quarters have products without rounding, whatever the order of their sum."""
    head, plain = Head(multiple=multiple), Head()
    with torch.no_grad():
        for one in (head, plain):
            for tensor in (one.hidden, one.weight, one.bias):
                tensor.copy_((tensor * 4).round() / 4)

    def function(logits: Tensor, draws: Tensor) -> tuple[Tensor]:
        return (predict(logits, draws, prediction, temperature),)

    (wanted,) = plain.logits(None).read(function, head.draws)
    for size in (None, num):
        (found,) = head.logits(size).read(function, head.draws)
        assert found.equal(wanted)
    assert len(wanted.unique()) > 10


def test_a_padded_product_is_the_same_and_nobody_sees_its_end() -> None:
    found = []
    for multiple in (1, 256):
        head = Head(multiple=multiple)
        for num in (None, 5 * VOCAB):
            logits = head.logits(num)
            assert logits.whole().shape == (ROWS, SLOTS, VOCAB)
            loss, few = logits.losses(head.gold, head.others)
            assert few is not None
            found.append((logits.whole(), loss, few, *head.gradients(loss, few)))
    for other in found[1:]:
        for ours, theirs in zip(other, found[0], strict=True):
            same(ours, theirs)


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16, torch.float16])
def test_a_product_without_bias_can_be_padded(precision: torch.dtype) -> None:
    weight = torch.randn(5, 3, dtype=precision)
    longer, bias = padded(weight, None, 8)
    logits = functional.linear(torch.randn(2, 3, dtype=precision), longer, bias).float()
    assert logits.shape == (2, 8) and logits.isfinite().all()
    assert logits.softmax(-1)[:, 5:].count_nonzero() == 0
    assert (logits / 100).softmax(-1)[:, 5:].count_nonzero() == 0


def test_without_gradients_the_values_are_the_same() -> None:
    head = Head()
    loss, few = head.logits(900).losses(head.gold, head.others)
    with torch.no_grad():
        again, few_again = head.logits(900).losses(head.gold, head.others)
    assert again.equal(loss) and not again.requires_grad
    assert few is not None and few_again is not None and few_again.equal(few)


class Largest(TorchDispatchMode):
    """The size of the largest tensor that is made."""

    def __init__(self) -> None:
        super().__init__()
        self.num = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for value in result if isinstance(result, tuple | list) else (result,):
            if isinstance(value, Tensor):
                self.num = max(self.num, value.numel())
        return result


@pytest.mark.parametrize("is_whole", [False, True])
def test_no_tensor_of_rows_times_vocabulary_is_made(is_whole: bool) -> None:
    """Neither forward nor backward, though the loss, a draw, ten other tokens and the expectation are asked for."""
    torch.manual_seed(0)
    vocab, num = 5000, 60_000
    hidden = torch.randn(40, 10, 8, requires_grad=True)
    weight, bias = torch.randn(vocab, 8, requires_grad=True), torch.randn(vocab, requires_grad=True)
    gold, others = torch.randint(vocab, (40, 10)), torch.randint(vocab, (40, 10, 10))
    with Largest() as largest:
        logits: Logits = ChunkedLogits(hidden, weight, bias, num / MB)
        if is_whole:
            logits = WholeLogits(functional.linear(hidden, weight, bias))
        logits.read(lambda z, draws: (predict(z, draws, "sampled"),), torch.rand(40, 10))
        loss, few = logits.losses(gold, others, 0.9)
        assert few is not None
        (loss.sum() + few.sum() + logits.expected(weight).sum()).backward()
    if is_whole:
        assert largest.num >= 400 * vocab
    else:
        assert largest.num <= 1.05 * num  # a draw pads a chunk to whole blocks


# Heads


@pytest.mark.parametrize(("architecture", "changes"), HEADS)
@pytest.mark.parametrize("is_tied", [True, False])
def test_heads_come_apart_and_give_transformers_own_loss(
    architecture: str, changes: dict[str, bool], is_tied: bool
) -> None:
    """``labels`` of every token: the model's own loss and gradients, tied or not, against those of chunks."""
    if not is_tied and changes:
        pytest.skip("the new DeBERTa head is given the embeddings themselves")
    model = MaskedLanguageModel(make_masked_lm(architecture, tie_word_embeddings=is_tied, **changes)).eval()
    assert model.has_linear_head
    ids = torch.arange(5, 35).view(3, 10)
    labels = ids.roll(1, 1)
    output = model.model(input_ids=ids, labels=labels)
    output.loss.backward()
    wanted = {name: p.grad for name, p in model.named_parameters()}
    model.zero_grad()
    hidden = model.model.base_model(input_ids=ids).last_hidden_state
    logits = logits_of(model, hidden, 400 / MB)
    assert isinstance(logits, ChunkedLogits)
    same(logits.whole(), output.logits)
    loss = logits.losses(labels)[0].mean()
    same(loss, output.loss)
    loss.backward()
    found = {name: p.grad for name, p in model.named_parameters()}
    assert found.keys() == wanted.keys()
    for name, gradient in wanted.items():
        assert (gradient is None) == (found[name] is None), name
        if gradient is not None:
            same(found[name], gradient)


def test_parts_are_the_models_own_parameters_and_are_listed_once() -> None:
    model = MaskedLanguageModel(make_masked_lm("roberta"))
    assert [*model.state_dict()] == [f"model.{name}" for name in model.model.state_dict()]
    ours, theirs = [*model.parameters()], [*model.model.parameters()]
    assert len(ours) == len(theirs) and all(a is b for a, b in zip(ours, theirs, strict=True))
    assert model.head_parts(torch.zeros(1, 32))[1] is model.model.get_output_embeddings().weight


def test_a_copy_has_parts_of_its_own() -> None:
    """As a moving average is one: to change it changes its head's parts, and nothing of the original's."""
    model = MaskedLanguageModel(make_masked_lm("bert"))
    other, hidden = copy.deepcopy(model), torch.randn(2, 32)
    before = model.head_parts(hidden)[0]
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(1.5)
    assert model.head_parts(hidden)[0].equal(before)
    parts = other.head_parts(hidden)
    assert parts[0].shape == before.shape and not parts[0].allclose(before)
    same(functional.linear(*parts), other.logits(hidden))


class Softcapped(nn.Module):
    """Logits that no product ends with."""

    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        self.head = head

    def forward(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.head(hidden).tanh() * 5
        return logits


def short_bias(head: Any) -> Any:
    head.decoder.bias = head.bias = nn.Parameter(torch.randn(1))
    return head


@pytest.mark.parametrize("changed", [Softcapped, short_bias])
def test_a_head_that_does_not_come_apart_is_held_whole(changed: Any) -> None:
    hf = make_masked_lm("roberta")
    hf.lm_head = changed(hf.lm_head)
    if changed is Softcapped:
        hf.get_output_embeddings = lambda: hf.lm_head.head.decoder
    model = MaskedLanguageModel(hf)
    assert not model.has_linear_head
    hidden = torch.randn(2, 3, 32)
    logits = logits_of(model, hidden, 1e-4)
    assert isinstance(logits, WholeLogits)
    assert logits.whole().equal(model.logits(hidden))


def test_what_is_held_is_asked_for() -> None:
    model = MaskedLanguageModel(make_masked_lm("electra"))
    hidden = torch.randn(4, 8, 32)
    size = 4 * 8 * model.vocab_size / MB
    kinds = {mb: type(logits_of(model, hidden, mb)) for mb in (-1.0, 0.0, size, size * 0.99)}
    assert kinds == {-1.0: WholeLogits, 0.0: WholeLogits, size: WholeLogits, size * 0.99: ChunkedLogits}


def test_a_gpu_has_a_limit_and_whole_blocks_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """On tensors of no device, which have shapes only: what is no CPU is taken for a GPU."""
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda kind: False)
    model = MaskedLanguageModel(make_masked_lm("electra")).to("meta")
    assert model.vocab_size % 256
    many = 512 * MB / model.vocab_size
    for rows, kind in ((int(many), WholeLogits), (int(many) + 1, ChunkedLogits)):
        logits = logits_of(model, torch.empty(1, rows, 32, device="meta"))
        assert type(logits) is kind
        entries = logits.weight if isinstance(logits, ChunkedLogits) else logits.values[0].T  # type: ignore[attr-defined]
        assert len(entries) % 256 == 0
        assert logits.whole().shape == (1, rows, model.vocab_size)


# Precision


def passes(head: Head) -> Iterator[tuple[Tensor, list[Tensor]]]:
    for num in (None, 4 * VOCAB):
        loss, few = head.logits(num).losses(head.gold, head.others)
        assert few is not None
        yield loss, head.gradients(loss, few)


def test_bfloat16_is_summed_in_float32() -> None:
    """No worse than whole logits in bfloat16, against float32 from the same rounded numbers."""
    head, exact = Head(5000, torch.bfloat16), Head(5000)
    for rounded, full in ((head.hidden, exact.hidden), (head.weight, exact.weight), (head.bias, exact.bias)):
        full.data = rounded.detach().float()
    (whole_loss, whole), (loss, chunked) = passes(head)
    (wanted_loss, wanted), _ = passes(exact)
    assert loss.dtype == torch.float32 and chunked[0].dtype == torch.bfloat16
    assert (loss - wanted_loss).abs().mean() <= 1.2 * (whole_loss - wanted_loss).abs().mean()
    for ours, theirs, true in zip(chunked[:3], whole[:3], wanted[:3], strict=True):
        assert (ours - true).norm() <= 1.2 * (theirs - true).norm()
        assert (ours - true).norm() < 0.02 * true.norm()


def test_autocast_rounds_the_parts_as_it_does_the_product() -> None:
    model = MaskedLanguageModel(make_masked_lm("bert")).eval()
    hidden = torch.randn(3, 4, 32)
    gold = torch.randint(model.vocab_size, (3, 4))
    with torch.autocast("cpu", torch.bfloat16):
        losses = [logits_of(model, hidden, mb).losses(gold)[0] for mb in (0.0, 400 / MB)]
        found = []
        for loss in losses:
            loss.sum().backward()
            found.append({name: p.grad for name, p in model.named_parameters() if p.grad is not None})
            model.zero_grad()
    torch.testing.assert_close(losses[1], losses[0], rtol=0, atol=0.02)
    assert losses[1].dtype == torch.float32
    for name, gradient in found[0].items():
        assert found[1][name].dtype == torch.float32
        assert (found[1][name] - gradient).norm() <= 0.02 * gradient.norm(), name
