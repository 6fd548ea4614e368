"""How much of a text CLINE's views replace, by settings of ``objective.cline.views``.

    python benchmarks/view_shares.py CORPUS --set preset=trueneg --set preset=paper --set preset=paper,agree=true

CORPUS was built with ``--tag``. Of each view: the share of its tokens that were put there, start and end tokens left
out; the share of the original's words and punctuation marks that were replaced, of those that are left in the row, and
the same without the marks; and the tokens that did not fit any more, as a share of the view's.
"""

from __future__ import annotations

import argparse
from collections import Counter

import numpy as np

from trueneg.config.codec import override
from trueneg.config.objective_options import ViewsConfig
from trueneg.corpus.rows import RowIndex
from trueneg.corpus.store import Corpus
from trueneg.corpus.tags import Tags
from trueneg.corruption.views.batch import KEPT, View
from trueneg.corruption.views.rows import ViewReader, make_substitution
from trueneg.tokenizer import load_tokenizer

BATCH = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("corpus")
    parser.add_argument("--set", action="append", dest="settings", help="options, with commas between them")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--rows", type=int, default=4000)
    options = parser.parse_args()
    corpus = Corpus.open(options.corpus)
    tags, tokenizer = Tags.open(corpus), load_tokenizer(corpus.path / "tokenizer")
    index = RowIndex(corpus, options.length, tags=tags)
    numbers = np.sort(np.random.default_rng(0).permutation(len(index))[: options.rows])
    for settings in options.settings or ["preset=trueneg"]:
        reader = ViewReader(make_substitution(override(ViewsConfig(), settings.split(",")), tags, tokenizer))
        print(settings)
        for name, counts in counted(reader, index, numbers).items():
            shares = ("tokens", "put"), ("words and marks", "replaced"), ("words", "replaced"), ("tokens", "cut")
            found = ", ".join(f"{part} {counts[part] / counts[whole]:.1%} of {whole}" for whole, part in shares)
            print(f"  {name}: {found} ({counts['tokens']:,} tokens)", flush=True)


def counted(reader: ViewReader, index: RowIndex, numbers: np.ndarray) -> dict[str, Counter[str]]:
    """Count over rows, for each view."""
    totals: dict[str, Counter[str]] = {"synonym": Counter(), "antonym": Counter()}
    for begin in range(0, len(numbers), BATCH):
        own = numbers[begin : begin + BATCH]
        views, rows = reader(index, own, 1, np.arange(begin, begin + len(own))), index.read(own)
        assert rows.tags is not None
        is_start = rows.is_word_start & ~rows.is_special
        for name, view in (("synonym", views.synonym), ("antonym", views.antonym)):
            totals[name].update(_count(view, rows.is_special, is_start, rows.tags > 0))
    return totals


def _count(view: View, is_special: np.ndarray, is_start: np.ndarray, is_word: np.ndarray) -> dict[str, int]:
    assert view.source is not None and view.num_cut is not None
    source, is_put = view.source.numpy(), view.labels.numpy() != KEPT
    line, column = np.nonzero(source >= 0)
    is_left, is_replaced = np.zeros_like(is_start), np.zeros_like(is_start)
    is_left[line, source[line, column]] = True
    is_replaced[line, source[line, column]] = is_put[line, column]
    return {
        "tokens": int((~is_special[line, source[line, column]]).sum()),
        "put": int(is_put.sum()),
        "words and marks": int((is_start & is_left).sum()),
        "words": int((is_start & is_left & is_word).sum()),
        "replaced": int((is_start & is_replaced).sum()),
        "cut": int(view.num_cut.sum()),
    }


if __name__ == "__main__":
    main()
