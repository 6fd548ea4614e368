"""A spaCy pipeline as a tagger: far slower, closer to the paper's, and for any language that has a pipeline."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence

from trueneg.errors import LexiconError, MissingExtraError

_PENN_OF_UNIVERSAL = {
    "NOUN": "NN",
    "PROPN": "NNP",
    "VERB": "VB",
    "AUX": "MD",
    "ADJ": "JJ",
    "ADV": "RB",
    "DET": "DT",
    "PRON": "PRP",
    "ADP": "IN",
    "SCONJ": "IN",
    "CCONJ": "CC",
    "NUM": "CD",
    "PART": "RP",
    "INTJ": "UH",
}
"""Penn tag of each universal part of speech, for languages that have fine-grained tags of their own."""


class SpacyTagger:
    """Tags words with a spaCy pipeline, keeping the given tokenization, one sentence per document.

    An English pipeline's fine-grained tags are those of the Penn Treebank. For other languages the universal part of
    speech is used, without inflection: every noun is ``NN``, every verb ``VB``.

    Args:
        model: name or folder of an installed pipeline.

    Raises:
        MissingExtraError: if spaCy is not installed.
        LexiconError: if the pipeline is not installed, or has no tagger.
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
        self._make_document = Doc
        self._is_english = self._pipeline.meta.get("lang", "en") == "en"
        # Several languages' published pipelines have a morphologizer instead, which finds the universal part of speech.
        taggers = {"tagger"} if self._is_english else {"tagger", "morphologizer"}
        if taggers.isdisjoint(self._pipeline.pipe_names):
            raise LexiconError(f"spaCy's pipeline '{model}' has no tagger: name one that has, such as en_core_web_sm")
        self.provenance = {
            "spacy": importlib.metadata.version("spacy"),
            "model": model,
            "model_version": str(self._pipeline.meta.get("version", "")),
        }

    def __call__(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """Tag sentences."""
        vocabulary = self._pipeline.vocab
        documents = (self._make_document(vocabulary, words=list(words)) for words in sentences)
        tagged = self._pipeline.pipe(documents)
        if self._is_english:
            return [[word.tag_ for word in document] for document in tagged]
        return [[_PENN_OF_UNIVERSAL.get(word.pos_, "") for word in document] for document in tagged]
