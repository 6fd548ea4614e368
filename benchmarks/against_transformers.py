"""ELECTRA's training step: ours against transformers' own classes, trained the ordinary way, in turns.

The ordinary way: ``ElectraForMaskedLM`` computes logits at every row and its own loss with labels of -100; tokens
are sampled from those logits at the masked positions; ``ElectraForPreTraining`` finds them. Both arms have equal
sizes, batch, precision and optimizer, and share embeddings. What differs is the generator's head, at a seventh of
the rows, so the smaller the encoder, the more there is to gain: by multiplications alone, with a vocabulary of
30,522, electra-mini can gain a factor of 3.1 and electra-small one of 1.3.

    python benchmarks/against_transformers.py --preset electra-small --rounds 5 --json
    python benchmarks/against_transformers.py --preset electra-small --precision bf16 --profile
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile
from transformers import ElectraForMaskedLM, ElectraForPreTraining, PreTrainedTokenizerFast

from trueneg.config.codec import override
from trueneg.config.options import PretrainConfig
from trueneg.config.presets import preset as find_preset
from trueneg.corruption.keyed import example_keys
from trueneg.corruption.rows import Rows
from trueneg.models.electra import ElectraPair
from trueneg.runs.bench import Benchmark, take_turns
from trueneg.runs.pretraining import build
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


def their_step(config: PretrainConfig, tokenizer: PreTrainedTokenizerFast, rows: Rows, device: torch.device) -> Step:
    pair, _ = build(config, tokenizer)
    assert isinstance(pair, ElectraPair)
    generator = ElectraForMaskedLM(pair.generator.model.config)
    discriminator = ElectraForPreTraining(pair.discriminator.model.config)
    generator.electra.embeddings = discriminator.electra.embeddings
    generator.tie_weights()
    both = nn.ModuleList([generator, discriminator]).to(device).train()
    optimizer = make_optimizer(both, config.optimizer)
    ids = rows.input_ids.to(device)
    attention_mask = torch.ones_like(ids)
    rate, weight = config.objective.masking.rate, config.objective.discriminator_weight

    def step() -> None:
        with torch.autocast(device.type, torch.bfloat16, enabled=config.train.precision == "bf16"):
            is_masked = (torch.rand(ids.shape, device=device) < rate) & (ids >= len(SPECIAL))
            masked_ids = ids.masked_fill(is_masked, MASK)
            labels = ids.masked_fill(~is_masked, -100)
            generated = generator(input_ids=masked_ids, attention_mask=attention_mask, labels=labels)
            with torch.no_grad():
                probabilities = generated.logits[is_masked].float().softmax(-1)
                filled = ids.clone()
                filled[is_masked] = torch.multinomial(probabilities, 1).squeeze(-1)
            found = discriminator(
                input_ids=filled, attention_mask=attention_mask, labels=(filled != ids).to(torch.int64)
            )
            loss = generated.loss + weight * found.loss
        loss.backward()
        nn.utils.clip_grad_norm_(both.parameters(), config.optimizer.max_grad_norm)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


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
    parser.add_argument("--preset", default="electra-small", help="an ELECTRA preset")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--vocab-size", type=int, default=30522)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--settings", nargs="*", default=[], metavar="KEY=VALUE", help="such as model.dropout=0")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    parser.add_argument("--profile", action="store_true", help="show where either step spends its time instead")
    options = parser.parse_args()

    chosen = [f"train.batch_size={options.batch_size}", f"train.precision={options.precision}"]
    config = override(find_preset(options.preset), [*chosen, *options.settings])
    device = choose_device(config.train.device)
    tokenizer = make_tokenizer(options.vocab_size)
    torch.manual_seed(config.train.seed)
    rows = make_rows(config, options.vocab_size)
    arms = {name: make(config, tokenizer, rows, device) for name, make in ARMS.items()}
    if options.profile:
        for name, step in arms.items():
            show_profile(name, step, device)
        return
    results = take_turns(arms, options.rounds, rows.input_ids.numel(), device)
    what = f"against transformers, {options.precision}"
    threads = torch.get_num_threads()
    result = Benchmark(what, options.preset, device.type, threads, options.rounds, rows.input_ids.numel(), results)
    if options.json:
        print(json.dumps(dataclasses.asdict(result), indent=2))
    else:
        for arm in results:
            print(f"{arm.name:14} {arm.milliseconds:9.1f} ms  {arm.tokens_per_second:9.0f} tokens/s  x {arm.ratio:.2f}")


ARMS = {"trueneg": our_step, "transformers": their_step}


if __name__ == "__main__":
    main()
