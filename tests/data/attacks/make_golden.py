"""What TextAttack and TextFooler's authors make of the texts of ``tests/attacks/made_up_world.py``.

    python tests/data/attacks/make_golden.py TEXTFOOLER > tests/data/attacks/golden.json

Runs where TextAttack 0.3.11 is installed, with NLTK's stop words and universal tag set at hand (NLTK_DATA); see
``benchmarks/textfooler.py``. TEXTFOOLER is a checkout of https://github.com/jind11/TextFooler, of whose
``attack_classification.py`` the functions ``attack`` and ``pick_most_similar_words_batch`` are run as they are, and of
whose ``criteria.py`` ``get_pos``, ``pos_filter`` and ``get_stopwords``; its TensorFlow and GPU are not needed. NLTK's
tagger is replaced by the one of the made-up world.
"""

from __future__ import annotations

import ast
import json
import sys
from collections import OrderedDict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nltk
import nltk.tag
import numpy as np
import torch

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1] / "attacks"), str(HERE.parents[2] / "benchmarks")]

import made_up_world as world  # noqa: E402
import textfooler as benchmark  # noqa: E402

nltk.tag._get_tagger = lambda lang=None: SimpleNamespace(
    tag=lambda words: list(zip(words, world.tag(words), strict=True))
)
ODD_TEXTS = ["", "...", "It's 'odd' -- isn't-it?", "a_b *c* @d_ x's' naïve café 3.5% U.S. co-op", "tab\tand\nline  two"]


def textattack(encoder: Any) -> list[dict[str, Any]]:
    from textattack.models.wrappers import ModelWrapper
    from textattack.shared import AttackedText

    class Classifier(ModelWrapper):
        model = None

        def __call__(self, inputs: list[Any]) -> torch.Tensor:
            pairs = [(given,) if isinstance(given, str) else given for given in inputs]
            return torch.from_numpy(np.stack([world.probabilities(*pair) for pair in pairs]))

    attack = benchmark.make_attack(Classifier(), benchmark.make_table(world.neighbours()), encoder)
    found = []
    for number, (text, second) in enumerate(world.texts(is_plain=False)):
        label = world.label_of(number, text, *([] if second is None else [second]))
        given = text if second is None else OrderedDict(premise=text, hypothesis=second)
        found.append(benchmark.as_result(attack.attack(AttackedText(given), label)))
    return found


def make_encoder() -> Any:
    from textattack.constraints.semantics.sentence_encoders import SentenceEncoder

    class Encoder(SentenceEncoder):
        def encode(self, sentences: list[str]) -> torch.Tensor:
            return torch.from_numpy(np.stack([world.vector(sentence) for sentence in sentences]))

    return Encoder(
        threshold=0.840845057,
        metric="angular",
        compare_against_original=False,
        window_size=15,
        skip_text_shorter_than_window=True,
    )


def authors(folder: Path) -> list[dict[str, Any]]:
    torch.Tensor.cuda = lambda self: self  # type: ignore[method-assign, assignment]
    space: dict[str, Any] = {"np": np, "torch": torch, "nltk": nltk}
    for file, names in {
        "criteria.py": ("get_pos", "pos_filter", "get_stopwords"),
        "attack_classification.py": ("attack", "pick_most_similar_words_batch"),
    }.items():
        tree = ast.parse((folder / file).read_text())
        tree.body = [node for node in tree.body if getattr(node, "name", "") in names]
        exec(compile(tree, file, "exec"), space)
        space["criteria"] = SimpleNamespace(**space)
    near = world.neighbours()
    words = list(dict.fromkeys([*near, *(str(other) for found in near.values() for other, _ in found)]))
    number = {word: n for n, word in enumerate(words)}
    cosines = np.full((len(words), len(words)), -1.0)
    for n in range(len(words)):
        cosines[n, n] = 2
    # Descending without ties, as the table has them: which of equals comes first is argsort's business.
    for word, found in near.items():
        for rank, (other, cosine) in enumerate(found):
            cosines[number[word], number[str(other)]] = float(cosine) + (len(found) - rank) * 1e-9

    def predictor(texts: list[list[str]], batch_size: int = 32) -> torch.Tensor:
        return torch.from_numpy(np.stack([world.probabilities(" ".join(words)) for words in texts]))

    def semantic_sim(left: list[str], right: list[str]) -> list[Any]:
        return [1 - np.array([world.angle(*pair) for pair in zip(left, right, strict=True)])]

    results = []
    for n, (text, second) in enumerate(world.texts(is_plain=True)):
        if second is not None:
            continue
        label = world.label_of(n, text)
        changed, _, old, new, queries = space["attack"](
            text.split(),
            label,
            predictor,
            space["get_stopwords"](),
            number,
            words,
            cosines,
            SimpleNamespace(semantic_sim=semantic_sim),
        )
        outcome = "skipped" if int(old) != label else "failed" if int(new) == label else "succeeded"
        results.append({"text": changed or text, "second": None, "queries": queries, "outcome": outcome})
    return results


if __name__ == "__main__":
    from textattack.shared.utils import words_from_text

    golden = {
        "words": [[text, words_from_text(text)] for text in ODD_TEXTS],
        "textattack": textattack(None),
        "textattack, similar": textattack(make_encoder()),
        "jin2019, similar": authors(Path(sys.argv[1])),
    }
    print(json.dumps(golden, ensure_ascii=False).replace("}, ", "},\n"))
