"""Other processes at the price of a fork: importing torch and transformers takes seconds, a server pays for it once."""

from __future__ import annotations

import multiprocessing

PRELOADED = [
    "pydantic.type_adapter",
    "trueneg.runs.pretraining",
    "transformers.models.electra.modeling_electra",
    "transformers.models.bert.modeling_bert",
    # What the commands of tests/faults import late.
    "trueneg.cli.main",
    "trueneg.attacks.runner",
    "trueneg.attacks.registry",
    "trueneg.attacks.typos",
    "trueneg.corpus.annotate",
    "trueneg.tasks.tabular",
    "trueneg.runs.finetuned_models",
    "trueneg.runs.finetuning",
    "trueneg.objectives.cline",
    "trueneg.objectives.mlm",
    "trueneg.objectives.rtd",
    "trueneg.recipes.planted",
    "trueneg.reporting.html",
]
"""What other processes of the tests import; see also preloaded_command.py."""

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(PRELOADED)
