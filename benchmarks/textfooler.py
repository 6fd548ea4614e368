"""TextFooler here and in TextAttack, same victim, neighbours, tagger and texts: do they agree, how fast are they?

    python benchmarks/textfooler.py results/x/mr/seed-1 --data cline_eval --neighbours neighbours.json \
        --textattack ta-venv/bin/python --examples 30 --rounds 3

TextAttack lives in an environment of its own, with NLTK's stop words, perceptron tagger and universal tag set
(NLTK_DATA): ``pip install textattack==0.3.11 'datasets<4' 'huggingface_hub<1' 'transformers<5'``. Its recipe runs
without the Universal Sentence Encoder, which cannot be had offline, and with one thing in its favour: NLTK 3.10 loads
its tagger anew for every sentence, and is made to load it once. ``default`` is how TextAttack comes, every batch padded
to the longest text that the model reads; ``tuned`` pads to ``--tuned`` tokens. Texts that are nearly as long are left
out: where one is cut, the victims are not the same.

The arms take turns in processes of one thread; what counts is processor time, and a query is a text that the search
asks about, counted alike on both sides. Everything remembered is forgotten between rounds.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("victim", help="folder of a fine-tuned model: <out>/<task>/seed-<n>")
    parser.add_argument("--data", required=True)
    parser.add_argument("--split", default="test")
    parser.add_argument("--neighbours", required=True, help="JSON: {word: [neighbour, ...]}")
    parser.add_argument("--textattack", required=True, help="python of TextAttack's environment")
    parser.add_argument("--examples", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tuned", type=int, default=64)
    parser.add_argument("--at-once", type=int, default=32)
    parser.add_argument("--arms", nargs="+", default=["ours", "tuned", "default"])
    parser.add_argument("--worker", choices=["ours", "textattack"], help="what this process does; for itself")
    options = parser.parse_args()
    if options.worker:
        serve({"ours": Ours, "textattack": TextAttack}[options.worker](options))
        return
    workers = {
        name: Worker(options, python)
        for name, python in {"ours": sys.executable, "textattack": options.textattack}.items()
    }
    readings: dict[str, list[dict[str, Any]]] = {arm: [] for arm in options.arms}
    texts = workers["ours"].ask({"read": options.examples})["examples"]
    for number in range(options.rounds):
        shift = number % len(options.arms)
        for arm in options.arms[shift:] + options.arms[:shift]:
            worker = workers["ours" if arm == "ours" else "textattack"]
            readings[arm].append(worker.ask({"attack": texts, "length": options.tuned if arm == "tuned" else 0}))
    report(options, readings, texts)


def report(options: argparse.Namespace, readings: dict[str, list[dict[str, Any]]], texts: Sequence[Any]) -> None:
    print(f"{options.victim}, {len(texts)} texts, {options.rounds} rounds, processor seconds of one thread")
    ours = readings["ours"]
    for arm, found in readings.items():
        speeds = [sum(r["queries"]) / r["seconds"] for r in found]
        ratios = sorted(a / b for a, b in zip((sum(r["queries"]) / r["seconds"] for r in ours), speeds, strict=True))
        agree = [
            [r[what] == o[what] for r, o in zip(found[0]["results"], ours[0]["results"], strict=True)]
            for what in ("text", "queries")
        ]
        print(
            f"{arm:8} {median(speeds):8.1f} queries/s ({min(speeds):.1f} to {max(speeds):.1f})   trueneg is "
            f"{median(ratios):5.2f} times as fast ({ratios[0]:.2f} to {ratios[-1]:.2f})   {sum(found[0]['queries']):,} "
            f"queries, {found[0]['outcomes']}   same text {sum(agree[0])}, same queries {sum(agree[1])} of {len(texts)}"
        )
        for number, same in enumerate(map(all, zip(*agree, strict=True))):
            if not same:
                print("  differs:", texts[number], *(r["results"][number] for r in (found[0], ours[0])), sep="\n    ")
    print("ours:", ours[0]["counts"])


class Worker:
    """A process that answers lines of JSON."""

    def __init__(self, options: argparse.Namespace, python: str) -> None:
        kind = "ours" if python == sys.executable else "textattack"
        self._process = subprocess.Popen(
            [python, __file__, *sys.argv[1:], "--worker", kind],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **ONE_THREAD},
        )  # fmt: skip

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Wait for the answer to a question."""
        assert self._process.stdin and self._process.stdout
        print(json.dumps(question), file=self._process.stdin, flush=True)
        for line in self._process.stdout:
            if line.startswith("{"):
                return dict(json.loads(line))
        raise SystemExit(f"the worker stopped: {self._process.wait()}")


def serve(side: Ours | TextAttack) -> None:
    import torch

    torch.set_num_threads(1)
    for line in sys.stdin:
        question = json.loads(line)
        if "read" in question:
            found = side.read(question["read"])
        else:
            search = side.prepared(question["attack"], question["length"])
            started = time.process_time()
            results = search()
            seconds = time.process_time() - started
            outcomes = [r["outcome"] for r in results]
            found = {
                "seconds": seconds,
                "results": results,
                "queries": [r["queries"] for r in results],
                "outcomes": {outcome: outcomes.count(outcome) for outcome in sorted(set(outcomes))},
                "counts": side.counts(),
            }
        print(json.dumps(found), flush=True)


class PerceptronTagger:
    """NLTK's tagger, as one of ours."""

    name = "nltk"

    def __init__(self) -> None:
        from nltk.tag import PerceptronTagger

        self.provenance: dict[str, str] = {}
        self._tagger = PerceptronTagger()
        self._predict = functools.lru_cache(1 << 16)(self._look)

    def __call__(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """Tag sentences. Sentences that differ in a word have most of what decides their other tags in common."""
        return [self._tag(words) for words in sentences]

    def _tag(self, words: Sequence[str]) -> list[str]:
        tags = [*reversed(self._tagger.START)]
        context = (*self._tagger.START, *map(self._tagger.normalize, words), *self._tagger.END)
        for number, word in enumerate(words):
            known = self._tagger.tagdict.get(word)
            tags.append(known or self._predict(word, context[number : number + 5], tags[-1], tags[-2]))
        return tags[2:]

    def _look(self, word: str, context: tuple[str, ...], previous: str, one_before: str) -> str:
        features = self._tagger._get_features(0, word, context, previous, one_before)
        return str(self._tagger.model.predict(features)[0])


class Ours:
    """The attack of this package."""

    def __init__(self, options: argparse.Namespace) -> None:
        from trueneg.attacks.word_substitution.neighbours import load_neighbours
        from trueneg.config.codec import load_config
        from trueneg.config.finetune_options import FinetuneConfig
        from trueneg.models.task_model import labels_of, load_finetuned
        from trueneg.tasks import make_task
        from trueneg.tokenizer import load_tokenizer

        self.options = options
        self.config = load_config(FinetuneConfig, Path(options.victim) / "config.json")
        source = str(Path(options.victim) / "hf")
        self.task = make_task(self.config.task, labels_of(source))
        self.model = load_finetuned(self.task.auto_class, source, self.task.labels)
        self.tokenizer = load_tokenizer(source)
        self.neighbours = load_neighbours(options.neighbours)
        self.tagger = PerceptronTagger()

    def read(self, num: int) -> dict[str, Any]:
        """Choose examples that no side cuts, or the victims would not be the same."""
        length = min(self.options.tuned, self.config.task.length)
        examples = self.task.subset(self.task.read(self.options.split).examples, 2 * num, 1)
        rows = self.task.encode(examples, self.tokenizer, 1 << 20, is_training=False).features.lengths
        examples = [e for e, row in zip(examples, rows.tolist(), strict=True) if row <= 0.9 * length][:num]
        return {"examples": [[e.text, e.second, e.label] for e in examples]}

    def prepared(self, texts: Sequence[Any], _: int) -> Any:
        """A function that attacks the texts, with nothing remembered."""
        from trueneg.attacks.victim import Victim
        from trueneg.attacks.word_substitution.textfooler import textfooler
        from trueneg.tasks.text import TextExample

        examples = [TextExample(str(n), text, second, label) for n, (text, second, label) in enumerate(texts)]
        self.victim = Victim(self.model, self.task, self.tokenizer, self.config.task.length)

        def search() -> list[dict[str, Any]]:
            adversaries = textfooler(
                self.victim, examples, neighbours=self.neighbours, tagger=self.tagger, similarity=None,
                at_once=self.options.at_once,
            )  # fmt: skip
            return [
                {"text": a.adversarial.text, "second": a.adversarial.second, "queries": a.num_queries,
                 "outcome": a.outcome}
                for a in adversaries
            ]  # fmt: skip

        return search

    def counts(self) -> dict[str, int]:
        """What the victim did in the last attack."""
        return vars(self.victim.counts)


class TextAttack:
    """The attack of TextAttack."""

    def __init__(self, options: argparse.Namespace) -> None:
        import nltk
        import textattack
        from transformers import AutoModelForSequenceClassification, PreTrainedTokenizerFast

        textattack.shared.utils.device = "cpu"
        nltk.tag._get_tagger = functools.cache(nltk.tag._get_tagger)
        source = Path(options.victim, "hf")
        self.model = AutoModelForSequenceClassification.from_pretrained(source).eval()
        roles = json.loads(Path(source, "tokenizer_config.json").read_text())
        names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
        self.tokenizer = PreTrainedTokenizerFast(
            tokenizer_file=str(source / "tokenizer.json"), **{name: roles[name] for name in names}
        )
        if roles.get("tokenizer_class", "").startswith("Bert"):
            self.tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
        self.longest = self.model.config.max_position_embeddings
        self.table = make_table(json.loads(Path(options.neighbours).read_text()))

    def prepared(self, texts: Sequence[Any], length: int) -> Any:
        """A function that attacks the texts, with nothing remembered."""
        from collections import OrderedDict

        from textattack.models.wrappers import HuggingFaceModelWrapper
        from textattack.shared import AttackedText

        self.tokenizer.model_max_length = length or self.longest
        attack = make_attack(HuggingFaceModelWrapper(self.model, self.tokenizer), self.table)
        inputs = [
            (AttackedText(text if second is None else OrderedDict(premise=text, hypothesis=second)), label)
            for text, second, label in texts
        ]

        def search() -> list[dict[str, Any]]:
            return [as_result(attack.attack(text, label)) for text, label in inputs]

        return search

    def counts(self) -> dict[str, int]:
        """What the victim did in the last attack."""
        return {}


def make_table(entries: dict[str, list[Any]]) -> Any:
    """A table of neighbours as TextAttack's word embedding; [neighbour, cosine] pairs, or neighbours alone."""
    from textattack.shared import AbstractWordEmbedding

    near = {word: [e if isinstance(e, list) else [e, 1.0] for e in found] for word, found in entries.items()}
    words = list(dict.fromkeys([*near, *(other for found in near.values() for other, _ in found)]))
    number = {word: n for n, word in enumerate(words)}
    cosines = {(number[word], number[other]): cosine for word, found in near.items() for other, cosine in found}

    class Table(AbstractWordEmbedding):
        def __getitem__(self, index: Any) -> Any:
            raise NotImplementedError

        def get_mse_dist(self, a: int, b: int) -> float:
            raise NotImplementedError

        def get_cos_sim(self, a: int, b: int) -> float:
            return float(cosines.get((a, b), 1.0))

        def word2index(self, word: str) -> int:
            return number[word]

        def index2word(self, index: int) -> str:
            return words[index]

        def nearest_neighbours(self, index: int, topn: int) -> list[int]:
            return [number[other] for other, _ in near.get(words[index], [])[:topn]]

    return Table()


def make_attack(wrapper: Any, table: Any, encoder: Any = None) -> Any:
    """TextAttack's TextFoolerJin2019 with this table, and this encoder or none for the Universal Sentence Encoder."""
    import inspect

    from textattack import Attack
    from textattack.attack_recipes import TextFoolerJin2019
    from textattack.constraints.grammaticality import PartOfSpeech
    from textattack.constraints.pre_transformation import (
        InputColumnModification,
        RepeatModification,
        StopwordModification,
    )
    from textattack.constraints.semantics import WordEmbeddingDistance
    from textattack.goal_functions import UntargetedClassification
    from textattack.search_methods import GreedyWordSwapWIR
    from textattack.transformations import WordSwapEmbedding

    recipe = inspect.getsource(TextFoolerJin2019.build)
    stop_words = set(re.findall(r'"([^"]+)"', recipe[recipe.index("set(") : recipe.index("# fmt: on")]))
    constraints = [
        RepeatModification(),
        StopwordModification(stopwords=stop_words),
        InputColumnModification(["premise", "hypothesis"], {"premise"}),
        WordEmbeddingDistance(embedding=table, min_cos_sim=0.5),
        PartOfSpeech(allow_verb_noun_swap=True),
        *([encoder] if encoder else []),
    ]
    transformation = WordSwapEmbedding(max_candidates=50, embedding=table)
    return Attack(
        UntargetedClassification(wrapper), constraints, transformation, GreedyWordSwapWIR(wir_method="delete")
    )


def as_result(found: Any) -> dict[str, Any]:
    text = found.perturbed_result.attacked_text._text_input
    first, second = [*text.values(), None][:2]
    return {
        "text": first,
        "second": second,
        "queries": found.perturbed_result.num_queries,
        "outcome": {"Successful": "succeeded", "Failed": "failed", "Skipped": "skipped"}[
            type(found).__name__.removesuffix("AttackResult")
        ],
    }


if __name__ == "__main__":
    main()
