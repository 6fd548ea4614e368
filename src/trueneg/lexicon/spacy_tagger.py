"""A pipeline of spaCy as a tagger: slower by far, nearer to the paper's, and for any language that has one."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence

from trueneg.errors import LexiconError, MissingExtraError


class SpacyTagger:
    """The tags of a spaCy pipeline, on words as they are handed over, one sentence a document.

    Args:
        model: name or folder of an installed pipeline with fine-grained tags of the Penn Treebank.

    Raises:
        MissingExtraError: if spaCy is not installed.
        LexiconError: if the pipeline is not, or does not tag.
    """

    def __init__(self, model: str) -> None:
        self.name = f"spacy:{model}"
        try:
            import spacy
            from spacy.tokens import Doc
        except ImportError as error:
            raise MissingExtraError("spacy", "spacy", f"the tagger '{self.name}'") from error
        try:
            self._pipeline = spacy.load(model, exclude=["parser", "ner", "lemmatizer", "senter"])
        except (OSError, ValueError) as error:
            raise LexiconError(
                f"spaCy cannot load the pipeline '{model}': install it with  python -m spacy download {model}"
            ) from error
        if "tagger" not in self._pipeline.pipe_names:
            raise LexiconError(f"spaCy's pipeline '{model}' has no tagger: name one that has, such as en_core_web_sm")
        self._make_document = Doc
        self.provenance = {
            "spacy": importlib.metadata.version("spacy"),
            "model": model,
            "model_version": str(self._pipeline.meta.get("version", "")),
        }

    def __call__(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """Tag sentences."""
        vocabulary = self._pipeline.vocab
        documents = (self._make_document(vocabulary, words=list(words)) for words in sentences)
        return [[word.tag_ for word in document] for document in self._pipeline.pipe(documents)]
