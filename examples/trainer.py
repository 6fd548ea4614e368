"""Pre-training, or continuing a checkpoint, with hard correction under ``transformers.Trainer``.

    trueneg corpus build my.txt --tokenizer tok/ --out corpus/ --valid 0.1
    python examples/trainer.py corpus/ out/ --steps 1000 --settings objective.correction.detector=lexical
    python examples/trainer.py corpus-bert/ out/ --from bert-base-uncased --steps 1000

Needs accelerate (``pip install accelerate``). ``out/`` then loads with ``AutoModelForPreTraining.from_pretrained``, or
``AutoModelForMaskedLM`` where a masked language model was continued. Without a held-out split nothing is evaluated;
with one, ``corpus.eval_rows`` says how many rows an evaluation reads.
"""

from __future__ import annotations

import argparse

from transformers import TrainingArguments

from trueneg.corpus.rows import RowIndex
from trueneg.corpus.store import Corpus
from trueneg.integrations.trainer import TruenegTrainer
from trueneg.runs.building import build
from trueneg.runs.configuring import configure
from trueneg.tokenizer import load_tokenizer

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", help="made by 'trueneg corpus build'")
    parser.add_argument("out")
    parser.add_argument("--preset", help="electra-mini, unless a checkpoint is continued")
    parser.add_argument("--from", dest="start_from", help="a run, a Hugging Face folder or a hub name to continue")
    parser.add_argument("--settings", nargs="*", default=[], metavar="KEY=VALUE", help="of the model and the objective")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch-size", type=int, default=32, help="rows of a micro-batch")
    parser.add_argument("--accumulation", type=int, default=1, help="micro-batches of a step")
    parser.add_argument("--cpu", action="store_true")
    options = parser.parse_args()

    preset = options.preset or (None if options.start_from else "electra-mini")
    config = configure(preset, start_from=options.start_from, settings=options.settings)
    tokenizer = load_tokenizer(f"{options.corpus}/tokenizer")
    model, objective = build(config, tokenizer)
    train = RowIndex(Corpus.open(options.corpus), config.corpus.length)
    held_out = None
    if config.corpus.eval_rows and "valid" in Corpus.open(options.corpus).info.splits:
        held_out = RowIndex(Corpus.open(options.corpus, "valid"), config.corpus.length)
    trainer = TruenegTrainer(
        model,
        objective,
        TrainingArguments(
            options.out,
            max_steps=options.steps,
            per_device_train_batch_size=options.batch_size,
            gradient_accumulation_steps=options.accumulation,
            learning_rate=config.optimizer.learning_rate,
            warmup_steps=config.optimizer.warmup_steps,
            weight_decay=config.optimizer.weight_decay,
            logging_steps=50,
            eval_strategy="steps" if held_out else "no",  # every eval_steps, and at the end
            eval_steps=500,
            save_steps=500,
            report_to="none",
            use_cpu=options.cpu,
        ),
        train_dataset=train,
        eval_dataset=held_out,
        eval_rows=config.corpus.eval_rows,
        processing_class=tokenizer,
    )
    trainer.train()
    trainer.save_model()
