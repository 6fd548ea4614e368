"""ELECTRA with hard correction, under ``transformers.Trainer``.

    trueneg corpus build my.txt --tokenizer tok/ --out corpus/ --valid 0.1
    python examples/trainer.py corpus/ out/ --steps 1000 --settings objective.correction.detector=lexical

Needs accelerate (``pip install accelerate``). ``out/`` then loads with ``AutoModelForPreTraining.from_pretrained``.
"""

from __future__ import annotations

import argparse

from transformers import TrainingArguments

from trueneg.corpus.rows import RowIndex
from trueneg.corpus.store import Corpus
from trueneg.integrations.trainer import TruenegTrainer
from trueneg.pretraining import build, configure
from trueneg.tokenizer import load_tokenizer

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", help="made by 'trueneg corpus build', with a held-out split")
    parser.add_argument("out")
    parser.add_argument("--preset", default="electra-mini")
    parser.add_argument("--settings", nargs="*", default=[], metavar="KEY=VALUE", help="of the model and the objective")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch-size", type=int, default=32, help="rows of a micro-batch")
    parser.add_argument("--accumulation", type=int, default=1, help="micro-batches of a step")
    parser.add_argument("--cpu", action="store_true")
    options = parser.parse_args()

    config = configure(options.preset, settings=options.settings)
    tokenizer = load_tokenizer(f"{options.corpus}/tokenizer")
    model, objective = build(config, tokenizer)
    train, held_out = (
        RowIndex(Corpus.open(options.corpus, split), config.corpus.length) for split in ("train", "valid")
    )
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
            eval_strategy="steps",
            eval_steps=500,
            save_steps=500,
            report_to="none",
            use_cpu=options.cpu,
        ),
        train_dataset=train,
        eval_dataset=held_out,
        processing_class=tokenizer,
    )
    trainer.train()
    print(trainer.evaluate())
    trainer.save_model()
