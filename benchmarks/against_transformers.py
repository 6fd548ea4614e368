"""A pre-training step: ours against transformers' own classes, in their default and in their best settings, in turns.

The ordinary way (``transformers``): the class computes logits at every row, and its own loss with labels of -100; of
ELECTRA, tokens are sampled from those logits at the masked positions, and ``ElectraForPreTraining`` finds them. The
best way (``best``) is what an expert writes around the same classes: bf16, the head at masked rows only, and with
``--compile`` the forward pass compiled, in both arms. All have equal sizes, batch and optimizer.

What differs from the ordinary way is the head, at a seventh of the rows, so the smaller the encoder, the more there is
to gain: by multiplications alone, with a vocabulary of 30,522, electra-mini can gain a factor of 3.1 and electra-small
one of 1.3. From the best way nothing does but how the same products are put.

    OMP_NUM_THREADS=1 python benchmarks/against_transformers.py --preset electra-small --rounds 5 --json
    python benchmarks/against_transformers.py --preset bert-base --batch-size 2 --compile --profile
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile
from transformers import BertForMaskedLM, ElectraForMaskedLM, ElectraForPreTraining, PreTrainedTokenizerFast

from trueneg.arithmetic import matrix_rate
from trueneg.config.codec import override
from trueneg.config.options import PretrainConfig
from trueneg.config.presets import preset as find_preset
from trueneg.corruption.keyed import example_keys
from trueneg.corruption.rows import Rows
from trueneg.models.electra import ElectraPair
from trueneg.models.flops import training_flops
from trueneg.objectives import objective_kind
from trueneg.runs.bench import Benchmark, take_turns
from trueneg.runs.building import build
from trueneg.training.distributed import choose_device
from trueneg.training.optimizer import make_optimizer
from trueneg.training.step import Run, train_step

ROLES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
SPECIAL = dict(zip(ROLES, ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), strict=True))
START, END, MASK = 2, 3, 4
Step = Callable[[], None]


def make_tokenizer(vocab_size: int) -> PreTrainedTokenizerFast:
    from tokenizers import Tokenizer, models

    words = [*SPECIAL.values(), *(f"word{number}" for number in range(vocab_size - len(SPECIAL)))]
    backend = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    return PreTrainedTokenizerFast(tokenizer_object=backend, **SPECIAL)


def make_rows(config: PretrainConfig, vocab_size: int) -> Rows:
    """Full rows of random tokens: speed does not depend on which they are."""
    shape = (config.train.batch_size, config.corpus.length)
    ids = torch.randint(len(SPECIAL), vocab_size, shape)
    ids[:, 0], ids[:, -1] = START, END
    is_special = ids < len(SPECIAL)
    keys = example_keys(config.train.seed, torch.arange(len(ids)))
    return Rows(ids, torch.ones_like(ids), is_special, ~is_special, ~is_special, keys, is_full=True)


def our_step(config: PretrainConfig, tokenizer: PreTrainedTokenizerFast, rows: Rows, device: torch.device) -> Step:
    run = Run.new(*build(config, tokenizer), config.optimizer, config.train, device)
    return lambda: void(train_step(run, [rows]))


def their_step(
    config: PretrainConfig,
    tokenizer: PreTrainedTokenizerFast,
    rows: Rows,
    device: torch.device,
    is_best: bool,
    is_compiled: bool,
) -> Step:
    model, _ = build(config, tokenizer)
    module = (TheirElectra if isinstance(model, ElectraPair) else TheirBert)(model, config, is_best).to(device).train()
    forward = torch.compile(module) if is_compiled else module
    optimizer = make_optimizer(module, config.optimizer)
    ids = rows.input_ids.to(device)
    num_masked = max(1, round(config.objective.masking.rate * (ids.shape[1] - 2)))

    def step() -> None:
        chosen = 1 + torch.rand(ids.shape[0], ids.shape[1] - 2, device=device).topk(num_masked).indices
        with torch.autocast(device.type, torch.bfloat16, enabled=is_best):
            loss = forward(ids, chosen)
        loss.backward()
        nn.utils.clip_grad_norm_(module.parameters(), config.optimizer.max_grad_norm)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def rows_of(hidden: Tensor, chosen: Tensor) -> Tensor:
    """Vectors of chosen positions, ``[batch, chosen, width]``."""
    return hidden.gather(1, chosen.unsqueeze(-1).expand(-1, -1, hidden.shape[-1]))


class TheirBert(nn.Module):
    """Masked language modelling with ``BertForMaskedLM``."""

    def __init__(self, model: nn.Module, config: PretrainConfig, is_best: bool) -> None:
        super().__init__()
        self.model = BertForMaskedLM(model.model.config)
        self.is_best = is_best

    def forward(self, ids: Tensor, chosen: Tensor) -> Tensor:
        """Give the loss, with these positions ``[batch, chosen]`` masked."""
        masked = ids.scatter(1, chosen, MASK)
        if not self.is_best:
            labels = torch.full_like(ids, -100).scatter(1, chosen, ids.gather(1, chosen))
            return self.model(input_ids=masked, attention_mask=torch.ones_like(ids), labels=labels).loss
        logits = self.model.cls(rows_of(self.model.bert(input_ids=masked).last_hidden_state, chosen))
        return F.cross_entropy(logits.flatten(0, 1).float(), ids.gather(1, chosen).flatten())


class TheirElectra(nn.Module):
    """Replaced token detection with ``ElectraForMaskedLM`` and ``ElectraForPreTraining``, which share embeddings."""

    def __init__(self, model: ElectraPair, config: PretrainConfig, is_best: bool) -> None:
        super().__init__()
        self.generator = ElectraForMaskedLM(model.generator.model.config)
        self.discriminator = ElectraForPreTraining(model.discriminator.model.config)
        self.generator.electra.embeddings = self.discriminator.electra.embeddings
        self.generator.tie_weights()
        self.weight, self.is_best = config.objective.discriminator_weight, is_best

    def forward(self, ids: Tensor, chosen: Tensor) -> Tensor:
        """Give the loss, with these positions ``[batch, chosen]`` masked."""
        gold, masked = ids.gather(1, chosen), ids.scatter(1, chosen, MASK)
        mask = None if self.is_best else torch.ones_like(ids)
        if self.is_best:
            hidden = rows_of(self.generator.electra(input_ids=masked).last_hidden_state, chosen)
            logits = self.generator.generator_lm_head(self.generator.generator_predictions(hidden))
            loss = F.cross_entropy(logits.flatten(0, 1).float(), gold.flatten())
        else:
            labels = torch.full_like(ids, -100).scatter(1, chosen, gold)
            generated = self.generator(input_ids=masked, attention_mask=mask, labels=labels)
            loss, logits = generated.loss, rows_of(generated.logits, chosen)
        with torch.no_grad():
            drawn = torch.multinomial(logits.flatten(0, 1).float().softmax(-1), 1).view_as(gold)
            filled = ids.scatter(1, chosen, drawn)
        found = self.discriminator(input_ids=filled, attention_mask=mask, labels=(filled != ids).to(torch.int64))
        return loss + self.weight * found.loss


def void(_: object) -> None:
    """Forget a result."""


def show_profile(name: str, step: Step, device: torch.device) -> None:
    """Print where a step spends its time, on standard error."""
    step()
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (device.type == "cuda")
    with profile(activities=activities) as recorded:
        step()
    order = "self_device_time_total" if device.type == "cuda" else "self_cpu_time_total"
    print(f"{name}:\n{recorded.key_averages().table(sort_by=order, row_limit=20)}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="electra-small", help="an ELECTRA or BERT preset")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--vocab-size", type=int, default=30522)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--compile", action="store_true", help="arms that are compiled besides: minutes to begin")
    parser.add_argument("--settings", nargs="*", default=[], metavar="KEY=VALUE", help="such as model.dropout=0")
    parser.add_argument("--arms", nargs="*", help="some of the arms only, the first one the yardstick")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    parser.add_argument("--profile", action="store_true", help="show where each step spends its time instead")
    options = parser.parse_args()

    config = override(find_preset(options.preset), [f"train.batch_size={options.batch_size}", *options.settings])
    device = choose_device(config.train.device)
    tokenizer = make_tokenizer(options.vocab_size)
    torch.manual_seed(config.train.seed)
    rows = make_rows(config, options.vocab_size)
    world = (tokenizer, rows, device)
    ours = {
        f"trueneg {name}": override(config, settings)
        for name, settings in (
            ("bf16", ["train.precision=bf16"]),
            ("fp32", ["train.precision=fp32"]),
            ("bf16 compiled", ["train.precision=bf16", "train.compile=true"]),
        )
    }
    theirs = {"transformers": (False, False), "best": (True, False), "best compiled": (True, True)}
    wanted = [name for name in (*ours, *theirs) if options.compile or "compiled" not in name]
    arms = {
        name: our_step(ours[name], *world) if name in ours else their_step(config, *world, *theirs[name])
        for name in options.arms or wanted
    }
    if options.profile:
        for name, step in arms.items():
            show_profile(name, step, device)
        return
    results = take_turns(arms, options.rounds, rows.input_ids.numel(), device)
    threads = torch.get_num_threads()
    tokens = rows.input_ids.numel()
    result = Benchmark("against transformers", options.preset, device.type, threads, options.rounds, tokens, results)
    kind = objective_kind(config.objective.name)
    encoders = kind.encoders(build(config, tokenizer)[0])
    flops = training_flops(encoders, config.corpus.length, config.objective.masking.rate)
    rates = {precision: matrix_rate(device, precision) for precision in ("fp32", "bf16")}
    shares = {
        arm.name: arm.tokens_per_second * flops / rates["fp32" if arm.name in FLOAT32 else "bf16"] for arm in results
    }
    if options.json:
        print(json.dumps({**dataclasses.asdict(result), "rates": rates, "shares": shares}, indent=2))
        return
    print(f"matrix products: {', '.join(f'{name} {rate / 1e9:.0f} GFLOP/s' for name, rate in rates.items())}")
    for arm in results:
        print(
            f"{arm.name:22} {arm.milliseconds:9.1f} ms  {arm.tokens_per_second:7.0f} tokens/s  x {arm.ratio:.2f} "
            f"({arm.ratio_low:.2f}-{arm.ratio_high:.2f})  {shares[arm.name]:.0%} of the machine's matrix rate"
        )


FLOAT32 = ("transformers", "trueneg fp32")


if __name__ == "__main__":
    main()
