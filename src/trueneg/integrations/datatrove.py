"""Corpora built by datatrove's executors: local processes, Slurm arrays, Ray.

``TokenizeFiles`` is one part of ``trueneg corpus build`` as a block: task 2 of 16 does what ``--part 3/16`` says.
``TokenizeDocuments`` ends a pipeline of datatrove's own readers, filters and deduplication. ``AnnotateCorpus`` is one
part of ``trueneg corpus annotate``. A pipeline of ``Finish`` alone, with one task that depends on those, puts the parts
together. What is finished is skipped when an executor is run again. ``docs/large-corpora.md`` has an example.
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
    """Tokenizes some of the files of a corpus: the first block of a pipeline of which it is the only one.

    The corpus is that of ``build_corpus``, byte for byte, for any number of tasks. A task that dies loses the file it
    was at; the others are skipped when the executor is run again, with as many tasks as before or with others.

    Args:
        sources: Files, folders, globs, URLs or hub data sets.
        tokenizer: A folder or hub name.
        out: The folder of the corpus, which all tasks can reach.
        options: More arguments of ``trueneg.corpus.parts.build_part``: ``valid``, ``seed``, ``tagger``, …
    """

    name = "trueneg: tokenize files"
    type = "🔢 - TOKENIZER"

    def __init__(self, sources: Sequence[str], tokenizer: str | Path, out: str | Path, **options: Any) -> None:
        super().__init__()
        self.sources, self.tokenizer, self.out, self.options = list(sources), str(tokenizer), str(out), options

    def run(self, data: _Documents = None, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        """Do the part of a task."""
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
    """Tokenizes the documents of a pipeline, of which it is the last block.

    The corpus holds them in the order of the files that datatrove's readers say they are from, whatever the number of
    tasks; documents that name no file, in that of the tasks. A task that dies begins anew, as datatrove has it, and a
    corpus is finished only once all tasks of one number of tasks have ended.

    Args:
        tokenizer: A folder or hub name.
        out: The folder of the corpus, which all tasks can reach.
        options: More arguments of ``trueneg.corpus.pipeline.write_task``: ``valid``, ``seed``, ``tagger``, …
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
    """Writes down what a detector accepts in some of the rows of a corpus, as ``corpus annotate --part`` does.

    Args:
        corpus: A corpus folder, which all tasks can reach.
        detector: What lists substitutes, as ``--detector`` names it.
        out: The folder of the annotations, which all tasks can reach.
        wordnet: WordNet's folder; by default it is looked for.
        device: Where encoders run; by default a GPU if there is one.
        options: More arguments of ``write_annotations``: ``most``, ``length``, ``splits``, …
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
    """Puts parts together, in a pipeline of one task that depends on those that made them.

    Args:
        folder: Of the corpus or of the annotations.
    """

    name = "trueneg: finish"
    type = "💽 - WRITER"

    def __init__(self, folder: str | Path) -> None:
        super().__init__()
        self.folder = str(folder)

    def run(self, data: _Documents = None, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        """Put them together, in the first task."""
        yield from data or ()
        if rank == 0:
            with self.track_time():
                finish(self.folder)
