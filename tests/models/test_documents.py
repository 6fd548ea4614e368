"""Attention by document boundaries equals the mask of pairs: vectors and gradients, with a reference as the kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch._dynamo.testing
from tiny_checkpoints import make_masked_lm, make_rows, make_tokenizer, save_checkpoint
from torch import Tensor
from torch.nn import functional
from transformers import AutoConfig, AutoModelForMaskedLM

from trueneg.corruption.rows import Rows
from trueneg.corruption.views.batch import Stack
from trueneg.models import documents
from trueneg.models.backbone import Encoder, attend_by_documents

LENGTH = 24
ARCHITECTURES = (
    "bert",
    "roberta",
    "xlm-roberta",
    "electra",
    "modernbert",
    "distilbert",
    "camembert",
    "albert",
    "eurobert",
    "nomic_bert",
)
CPU = torch.device("cpu")


def reference(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    starts: Tensor,
    starts_of_keys: Tensor,
    longest: int,
    longest_of_keys: int,
    *,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
) -> Tensor:
    """What torch documents of ``varlen_attn``, one document at a time, in plain softmax: ``[tokens, heads, width]``."""
    assert starts is starts_of_keys and starts.dtype == torch.int32 and starts[0] == 0 and starts[-1] == len(query)
    assert query.shape == key.shape == value.shape
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    pieces = []
    for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        assert end - begin <= longest == longest_of_keys
        q, k, v = (part[begin:end].transpose(0, 1) for part in (query, key, value))
        scores = (q @ k.transpose(1, 2)) * scale
        at = torch.arange(end - begin)
        ahead = at[None] - at[:, None]
        left, right = (end if size < 0 else size for size in window_size)
        scores = scores.masked_fill((ahead > right) | (-ahead > left), -torch.inf)
        pieces.append((scores.softmax(-1) @ v).transpose(0, 1))
    return torch.cat(pieces)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, int]]]:
    """The kernel is the reference, which runs anywhere; the windows that it was called with."""
    found: list[tuple[int, int]] = []

    def kernel(*given: Any, **named: Any) -> Tensor:
        found.append(named["window_size"])
        return reference(*given, **named)

    monkeypatch.setattr(documents, "kernel", lambda: kernel)
    monkeypatch.setattr(documents, "can_run", lambda device, dtype: True)
    yield found


def make_model(architecture: str, **settings: Any) -> Any:
    if architecture == "modernbert":
        settings = {"local_attention": 6} | settings
    if architecture in ("eurobert", "nomic_bert"):
        sizes = {
            "vocab_size": len(make_tokenizer()),
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "intermediate_size": 48,
        }
        sizes |= {"num_attention_heads": 4, "max_position_embeddings": 48, "pad_token_id": 1}
        special = dict.fromkeys(("bos_token_id", "eos_token_id", "mask_token_id"), 2)
        torch.manual_seed(0)
        return AutoModelForMaskedLM.from_config(
            AutoConfig.for_model(architecture, **(sizes | special | settings))
        ).eval()
    return make_masked_lm(architecture, **settings)


def with_starts(rows: Rows, more: int = 3) -> Rows:
    """Rows with their boundaries, found token by token, and the end a few times more."""
    flat = [(line, int(piece)) for line, pieces in enumerate(rows.segments) for piece in pieces]
    places = [at for at, one in enumerate(flat) if at == 0 or one != flat[at - 1]]
    return replace(rows, starts=torch.tensor([*places, *[len(flat)] * more], dtype=torch.int32))


def vectors_and_gradients(model: Encoder, ids: Tensor, rows: Rows) -> list[Tensor]:
    model.zero_grad()
    hidden = model.encode(ids, rows)[rows.segments > 0]
    hidden.square().sum().backward()
    return [hidden.detach(), *[weight.grad.clone() for weight in model.parameters() if weight.grad is not None]]


@pytest.mark.parametrize("pieces", [((4, 15, 5), (16,), (9, 8), (24,)), ((13,), (24,), (5,))], ids=["packed", "padded"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_boundaries_equal_the_mask_of_pairs(
    architecture: str, pieces: tuple[tuple[int, ...], ...], calls: list[tuple[int, int]]
) -> None:
    model = Encoder(make_model(architecture).double())
    ids, rows = make_rows(*pieces, length=LENGTH)
    rows = with_starts(rows)
    wanted = vectors_and_gradients(model, ids, rows)
    assert not calls and model.model.config._attn_implementation == "sdpa"
    assert attend_by_documents(model, CPU, torch.float64) == ""
    calls.clear()
    found = vectors_and_gradients(model, ids, rows)
    num_layers = getattr(model.model.config, "num_hidden_layers", 2)
    assert len(calls) == num_layers
    assert set(calls) == ({(3, 3), (-1, -1)} if architecture == "modernbert" else {(-1, -1)})
    assert len(found) == len(wanted) > 10
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-9, rtol=1e-9)
    shifted = replace(rows, starts=(rows.starts[1:] if rows.starts is not None else None))
    with pytest.raises(AssertionError):
        model.encode(ids, shifted)


def test_fewer_heads_of_keys_are_shared_as_in_transformers(calls: list[tuple[int, int]]) -> None:
    model = Encoder(make_model("eurobert", num_key_value_heads=2).double())
    ids, rows = make_rows((4, 15, 5), (16,), length=LENGTH)
    wanted = vectors_and_gradients(model, ids, with_starts(rows))
    assert attend_by_documents(model, CPU, torch.float64) == "" and calls
    for ours, theirs in zip(vectors_and_gradients(model, ids, with_starts(rows)), wanted, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-9, rtol=1e-9)


def test_windows_of_full_rows_need_no_mask_either(
    calls: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Encoder(make_model("modernbert").double())
    ids, rows = make_rows((LENGTH,), (LENGTH,), length=LENGTH)
    wanted = model.encode(ids, with_starts(rows))
    attend_by_documents(model, CPU, torch.float64)
    monkeypatch.setattr(functional, "scaled_dot_product_attention", None)
    torch.testing.assert_close(model.encode(ids, with_starts(rows)), wanted, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("architecture", ["bert", "modernbert", "distilbert"])
def test_without_boundaries_it_is_fused_attention_bit_for_bit(architecture: str) -> None:
    model = Encoder(make_model(architecture))
    batches = [make_rows((4, 15, 5), (16,), length=LENGTH), make_rows((13,), (24,), length=LENGTH)]
    batches.append(make_rows((LENGTH,), (LENGTH,), length=LENGTH))
    wanted = [vectors_and_gradients(model, ids, rows) for ids, rows in batches]
    tokens = torch.tensor([[1] * 20 + [0] * 4])
    of_transformers = model.model(input_ids=batches[0][0][:1], attention_mask=tokens).logits
    assert attend_by_documents(model, CPU) == ""
    assert model.model.config._attn_implementation == documents.NAME
    # Boundaries are there, and no kernel for them: a CPU, or float32.
    for (ids, rows), theirs in zip(batches, wanted, strict=True):
        for given in (rows, with_starts(rows)):
            assert all(
                torch.equal(*pair) for pair in zip(vectors_and_gradients(model, ids, given), theirs, strict=True)
            )
    assert torch.equal(model.model(input_ids=batches[0][0][:1], attention_mask=tokens).logits, of_transformers)


def test_it_has_no_dropout_whoever_computes_it(calls: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    model = Encoder(make_model("bert", attention_probs_dropout_prob=0.5, hidden_dropout_prob=0.0).double().train())
    ids, rows = make_rows((4, 15, 5), (16,), length=LENGTH)
    rows = with_starts(rows)
    assert not torch.equal(model.encode(ids, rows), model.encode(ids, rows))
    attend_by_documents(model, CPU, torch.float64)
    by_kernel = model.encode(ids, rows)
    assert torch.equal(model.encode(ids, rows), by_kernel)
    monkeypatch.setattr(documents, "can_run", lambda device, dtype: False)
    torch.testing.assert_close(model.encode(ids, rows), by_kernel, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("architecture", ["electra", "modernbert"])
def test_all_batches_are_one_graph(architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def traceable(query: Tensor, key: Tensor, value: Tensor, starts: Tensor, *others: Any, **named: Any) -> Tensor:
        at = torch.arange(len(query))
        document = torch.searchsorted(starts.long(), at, right=True)
        may = document[:, None] == document
        if (reach := named["window_size"][0]) >= 0:
            may = may & ((at[:, None] - at).abs() <= reach)
        heads = (part.transpose(0, 1) for part in (query, key, value))
        found = functional.scaled_dot_product_attention(*heads, attn_mask=may, scale=named["scale"])
        return found.transpose(0, 1)

    monkeypatch.setattr(documents, "kernel", lambda: traceable)
    monkeypatch.setattr(documents, "can_run", lambda device, dtype: True)
    model = Encoder(make_model(architecture).double())
    assert attend_by_documents(model, CPU, torch.float64) == ""
    torch._dynamo.reset()
    counted = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(model.encode, fullgraph=True, dynamic=False, backend=counted)
    batches = [((4, 15, 5), (16,)), ((24,), (9, 8)), ((24,), (24,))]
    for seed, pieces in enumerate(batches):
        ids, rows = make_rows(*pieces, length=LENGTH, seed=seed)
        rows = replace(with_starts(rows, 9 - sum(map(len, pieces))), is_full=False, is_packed=True)
        assert rows.starts is not None
        rows = replace(rows, starts=functional.pad(rows.starts, (0, 9 - len(rows.starts)), value=ids.numel()))
        torch.testing.assert_close(compiled(ids, rows), model.encode(ids, rows), atol=1e-9, rtol=1e-9)
    assert counted.frame_count == 1


@pytest.mark.parametrize("architecture", ["deberta-v2", "mpnet"])
def test_what_cannot_be_exchanged_stays(architecture: str) -> None:
    model = Encoder(make_masked_lm(architecture))
    assert attend_by_documents(model, CPU) == f"'{architecture}' has no attention that can be exchanged"
    assert model.model.config._attn_implementation == "eager"


@pytest.mark.parametrize("fault", ["forward", "backward", "absent", "refused"])
def test_a_kernel_that_is_wrong_is_not_used(
    fault: str, calls: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def faulty(*given: Any, **named: Any) -> Tensor:
        if fault == "refused":
            raise RuntimeError("head_size should be a multiple of 8\nand more")
        found = reference(*given, **named)
        if fault == "forward":
            return found.flip(0)
        found.register_hook(lambda gradient: gradient * torch.nan)
        return found

    def kernel() -> Any:
        if fault == "absent":
            raise ImportError("no module named varlen")
        return faulty

    model = Encoder(make_model("bert").double())
    monkeypatch.setattr(documents, "kernel", kernel)
    said = {
        "forward": "the kernel's answer is",
        "backward": "the kernel's gradient is nan",
        "absent": "no module named varlen",
        "refused": "head_size should be a multiple of 8",
    }
    reason = attend_by_documents(model, CPU, torch.float64)
    assert reason.startswith(said[fault]) and "\n" not in reason
    assert model.model.config._attn_implementation == "sdpa"
    assert all(weight.grad is None for weight in model.parameters())
    assert attend_by_documents(model, CPU, torch.float64, is_asked=True) == reason
    ids, rows = make_rows((4, 15, 5), (16,), length=LENGTH)
    assert model.attends_by_documents
    assert torch.equal(model.encode(ids, with_starts(rows)), model.encode(ids, rows)), "the mask serves"


def test_stacked_batches_keep_their_documents(calls: list[tuple[int, int]]) -> None:
    model = Encoder(make_model("roberta").double())
    batches = [make_rows((4, 15, 5), (16,), length=LENGTH), make_rows((24,), (9, 8), length=LENGTH, seed=1)]
    stacked = Stack.of([with_starts(rows) for _, rows in batches])
    ids = torch.cat([ids for ids, _ in batches])
    wanted = model.encode(ids, stacked)
    attend_by_documents(model, CPU, torch.float64)
    calls.clear()
    is_text = stacked.segments > 0
    torch.testing.assert_close(model.encode(ids, stacked)[is_text], wanted[is_text], atol=1e-9, rtol=1e-9)
    assert calls
    assert Stack.of([rows for _, rows in batches]).starts is None


def test_a_saved_model_is_stock(tmp_path: Any) -> None:
    model = Encoder(make_model("electra"))
    attend_by_documents(model, CPU)
    folder = save_checkpoint(model.model, tmp_path / "saved")
    assert documents.NAME not in (tmp_path / "saved" / "config.json").read_text()
    assert AutoModelForMaskedLM.from_pretrained(folder).config._attn_implementation == "sdpa"


def test_torchs_own_kernel_takes_what_it_is_given() -> None:
    """On tensors without values: shapes and arguments, forward and backward."""
    heads = [torch.empty(2 * LENGTH, 4, 16, dtype=torch.bfloat16, device="meta", requires_grad=True) for _ in range(3)]
    starts = torch.empty(9, dtype=torch.int32, device="meta")
    found = documents.kernel()(*heads, starts, starts, LENGTH, LENGTH, scale=0.25, window_size=(4, 4))
    assert found.shape == heads[0].shape and found.dtype == torch.bfloat16
    found.sum().backward()
    assert all(part.grad is not None and part.grad.shape == part.shape for part in heads)


@pytest.mark.parametrize(
    ("device", "length", "is_on"),
    [
        ("cuda", 64, False),
        ("cuda", 192, False),
        ("cuda", None, False),
        ("cuda", 128, True),
        ("cuda", 96, True),
        ("cpu", 64, True),
    ],
)
def test_cudnns_attention_is_off_where_its_gradient_may_be_nan(device: str, length: int | None, is_on: bool) -> None:
    """pytorch#196678: masks at lengths of 128 n + 64."""
    for was_on in (True, False):
        torch.backends.cuda.enable_cudnn_sdp(was_on)
        try:
            with pytest.raises(KeyboardInterrupt), documents.without_faulty_attention(torch.device(device), length):
                assert torch.backends.cuda.cudnn_sdp_enabled() == (was_on and is_on)
                assert torch.backends.cuda.flash_sdp_enabled() and torch.backends.cuda.mem_efficient_sdp_enabled()
                raise KeyboardInterrupt
            assert torch.backends.cuda.cudnn_sdp_enabled() == was_on
        finally:
            torch.backends.cuda.enable_cudnn_sdp(True)


def test_the_types_that_the_kernel_takes() -> None:
    gpu = torch.device("cuda")
    assert documents.can_run(gpu, torch.bfloat16) and documents.can_run(gpu, torch.float16)
    assert not documents.can_run(gpu, torch.float32) and not documents.can_run(CPU, torch.bfloat16)
