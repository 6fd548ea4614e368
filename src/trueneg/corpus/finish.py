"""Merge the parts of a corpus, or of annotations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from trueneg.corpus.annotate import ANNOTATIONS, finish_annotations
from trueneg.corpus.annotations import INFO_FILE, AnnotationsInfo
from trueneg.corpus.parts import finish_corpus, read_plan
from trueneg.corpus.store import PARTS, CorpusInfo


def finish(folder: str | Path, progress: Callable[[int], None] | None = None) -> CorpusInfo | AnnotationsInfo:
    """Merge the parts of a corpus or of annotations, whichever the folder holds.

    Raises:
        CorpusError: if it holds neither, or a part is missing, damaged or made from other inputs.
    """
    plan = read_plan(Path(folder) / PARTS)
    if (plan.kind == ANNOTATIONS) if plan is not None else (Path(folder) / INFO_FILE).is_file():
        return finish_annotations(folder)
    return finish_corpus(folder, progress)
