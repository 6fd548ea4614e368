"""Corpora built by datatrove's executors: local processes, Slurm arrays, Ray.

``TokenizeFiles`` is one part of ``trueneg corpus build`` as a block: task 2 of 16 corresponds to ``--part 3/16``.
``TokenizeDocuments`` ends a pipeline of datatrove's own readers, filters and deduplication. ``AnnotateCorpus`` is one
part of ``trueneg corpus annotate``. A pipeline of only ``Finish``, with one task that depends on those, merges the
parts. Finished work is skipped when an executor is run again. ``docs/large-corpora.md`` has an example.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from trueneg.errors import MissingExtraError

try:
    from datatrove.pipeline.base import PipelineStep
except ImportError as error:
    raise MissingExtraError("datatrove", "large-corpora", "building corpora with datatrove") from error

from trueneg.corpus.annotate import write_annotations
from trueneg.corpus.finish import finish
from trueneg.corpus.parts import build_part
from trueneg.corpus.pipeline import write_task

_Step: Any = PipelineStep
_Documents = Any  # an iterator of datatrove's documents, or None for the first block


class TokenizeFiles(_Step):  # type: ignore[misc]
    """Tokenizes some of the files of a corpus: the only block of its pipeline.

    The corpus equals that of ``build_corpus``, byte for byte, for any number of tasks. A task that dies loses only the
    file it was processing; finished files are skipped when the executor is run again, with any number of tasks.

    Args:
        sources: Files, folders, globs, URLs or hub data sets.
        tokenizer: A folder or hub name.
        out: The folder of the corpus, which all tasks can reach.
        options: Further arguments of ``trueneg.corpus.parts.build_part``: ``valid``, ``seed``, ``tagger``, …
    """

    name = "trueneg: tokenize files"
    type = "🔢 - TOKENIZER"

    def __init__(self, sources: Sequence[str], tokenizer: str | Path, out: str | Path, **options: Any) -> None:
        super().__init__()
        self.sources, self.tokenizer, self.out, self.options = list(sources), str(tokenizer), str(out), options

    def run(self, data: _Documents = None, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        """Process the part of a task."""
        yield from data or ()
        with self.track_time():
            num_files = build_part(
                self.sources,
                self.tokenizer,
                self.out,
                f"{rank + 1}/{world_size}",
                progress=lambda size: self.stat_update("bytes", value=size),
                **self.options,
            )
        self.stat_update("files", value=num_files)


class TokenizeDocuments(_Step):  # type: ignore[misc]
    """Tokenizes the documents of a pipeline, as its last block.

    The corpus holds them in the order of the source files that datatrove's readers report, whatever the number of
    tasks; documents without a source file are in the order of tasks. A task that dies is restarted from its beginning,
    as usual in datatrove, and a corpus is complete only once all tasks have ended with the same number of tasks.

    Args:
        tokenizer: A folder or hub name.
        out: The folder of the corpus, which all tasks can reach.
        options: Further arguments of ``trueneg.corpus.pipeline.write_task``: ``valid``, ``seed``, ``tagger``, …
    """

    name = "trueneg: tokenize documents"
    type = "🔢 - TOKENIZER"

    def __init__(self, tokenizer: str | Path, out: str | Path, **options: Any) -> None:
        super().__init__()
        self.tokenizer, self.out, self.options = str(tokenizer), str(out), options

    def run(self, data: _Documents = None, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        """Tokenize the documents of a task."""

        def seen() -> Iterator[tuple[str, str]]:
            for document in data or ():
                self.stat_update("documents")
                yield str(document.metadata.get("file_path", "")), document.text

        write_task(seen(), self.tokenizer, self.out, rank, world_size, **self.options)
        yield from ()


class AnnotateCorpus(_Step):  # type: ignore[misc]
    """Writes the substitutes that a detector accepts in some rows of a corpus, like ``corpus annotate --part``.

    Args:
        corpus: A corpus folder, which all tasks can reach.
        detector: The detector that lists substitutes, as for ``--detector``.
        out: The folder of the annotations, which all tasks can reach.
        wordnet: WordNet's folder; by default the usual places are searched.
        device: Device for encoders; by default a GPU if there is one.
        options: Further arguments of ``write_annotations``: ``most``, ``length``, ``splits``, …
    """

    name = "trueneg: annotate"
    type = "🔎 - ANNOTATOR"

    def __init__(
        self, corpus: str | Path, detector: str, out: str | Path, wordnet: str = "", device: str = "", **options: Any
    ) -> None:
        super().__init__()
        self.corpus, self.detector, self.out = str(corpus), detector, str(out)
        self.wordnet, self.device, self.options = wordnet, device, options

    def run(self, data: _Documents = None, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        """Annotate the rows of a task."""
        from trueneg.cli.resources import make_resources
        from trueneg.corpus.store import Corpus
        from trueneg.detectors.annotator import make_annotator

        yield from data or ()
        tokenizer = Corpus.open(self.corpus, verify=False).load_tokenizer()
        annotator = make_annotator(self.detector, tokenizer, make_resources(self.wordnet, self.device))
        with self.track_time():
            write_annotations(
                self.corpus,
                annotator,
                self.out,
                part=f"{rank + 1}/{world_size}",
                progress=lambda count: self.stat_update("tokens", value=count),
                **self.options,
            )


class Finish(_Step):  # type: ignore[misc]
    """Merges parts, in a pipeline of one task that depends on the tasks that made them.

    Args:
        folder: Of the corpus or of the annotations.
    """

    name = "trueneg: finish"
    type = "💽 - WRITER"

    def __init__(self, folder: str | Path) -> None:
        super().__init__()
        self.folder = str(folder)

    def run(self, data: _Documents = None, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        """Merge them, in the first task."""
        yield from data or ()
        if rank == 0:
            with self.track_time():
                finish(self.folder)
