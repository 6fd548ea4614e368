"""Text in, rows of token ids out: read it, tokenize it once, and draw any row by its number.

``sources`` reads documents, ``build`` turns them into a memory-mapped corpus on disk, ``store`` opens one,
``rows`` cuts it into model inputs, and ``order`` says which row comes at which place of which epoch;
``annotate`` writes down what may stand in the place of each token, ``annotations`` reads it; ``tags`` are the words'
parts of speech. Nothing here holds a position: every row of every epoch is a pure function of (corpus, seed, place),
so training resumes anywhere at no cost. Nothing here imports torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trueneg.corpus.annotate import Accepted, Annotator, TableAnnotator, write_annotations
    from trueneg.corpus.annotations import Annotations, AnnotationsInfo
    from trueneg.corpus.build import build_corpus
    from trueneg.corpus.order import permute, rows_at
    from trueneg.corpus.rows import RowBatch, RowIndex, describe
    from trueneg.corpus.sources import read_documents
    from trueneg.corpus.store import Corpus, CorpusInfo
    from trueneg.corpus.tags import Tags, TagsInfo, WordTable
    from trueneg.corpus.tokenizer_training import extend_tokenizer, train_tokenizer

__all__ = [
    "Accepted",
    "Annotations",
    "AnnotationsInfo",
    "Annotator",
    "Corpus",
    "CorpusInfo",
    "RowBatch",
    "RowIndex",
    "TableAnnotator",
    "Tags",
    "TagsInfo",
    "WordTable",
    "build_corpus",
    "describe",
    "extend_tokenizer",
    "permute",
    "read_documents",
    "rows_at",
    "train_tokenizer",
    "write_annotations",
]

_HOMES = {
    "Accepted": "annotate",
    "Annotations": "annotations",
    "AnnotationsInfo": "annotations",
    "Annotator": "annotate",
    "Corpus": "store",
    "CorpusInfo": "store",
    "RowBatch": "rows",
    "RowIndex": "rows",
    "TableAnnotator": "annotate",
    "Tags": "tags",
    "TagsInfo": "tags",
    "WordTable": "tags",
    "build_corpus": "build",
    "describe": "rows",
    "extend_tokenizer": "tokenizer_training",
    "permute": "order",
    "read_documents": "sources",
    "rows_at": "order",
    "train_tokenizer": "tokenizer_training",
    "write_annotations": "annotate",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
