"""Other processes at the price of a fork: importing torch and transformers takes seconds, a server pays for it once."""

from __future__ import annotations

import multiprocessing

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        "trueneg.pretraining",
        "transformers.models.electra.modeling_electra",
        "transformers.models.bert.modeling_bert",
        # What the commands of tests/faults import late.
        "trueneg.cli.main",
        "trueneg.cli.finetune",
        "trueneg.attacking",
        "trueneg.attacks.making",
        "trueneg.attacks.typos",
        "trueneg.corpus.annotate",
        "trueneg.evaluation.tasks.tabular",
        "trueneg.finetuned",
        "trueneg.finetuning",
        "trueneg.objectives.cline",
        "trueneg.objectives.mlm",
        "trueneg.objectives.rtd",
        "trueneg.recipes.planted",
        "trueneg.reporting.html",
    ]
)
