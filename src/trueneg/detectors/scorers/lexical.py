"""WordNet's relations between two words, in any sentence: the paper's synonyms, and relations for a veto."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import cast

import numpy as np
from transformers import PreTrainedTokenizerFast

from trueneg.detectors.scorers.base import Scores, Substitution, SubstitutionScorer
from trueneg.detectors.specification import Leaf, Resources
from trueneg.detectors.table import TableDetector
from trueneg.lexicon.compatibility import MONTHS_AND_DAYS, is_individual, is_number
from trueneg.lexicon.relations import Relation, Relations
from trueneg.lexicon.stopwords import STOP_WORDS
from trueneg.lexicon.surface import casing
from trueneg.lexicon.table import FORMS, Forms, cached_table, is_listed
from trueneg.lexicon.wordnet import WordNet


class RelationScorer(SubstitutionScorer):
    """Score 1 if WordNet has one of the given relations between the words, in any of their forms, else 0.

    Args:
        relations: The lexicon.
        names: The relations that count.
        except_for: Relations that must not hold.
        is_symmetric: Also look them up from the substitute: WordNet's indirect antonyms go from "huge" to "small" only.
    """

    def __init__(
        self,
        relations: Relations,
        names: frozenset[Relation],
        except_for: frozenset[Relation] = frozenset(),
        *,
        is_symmetric: bool = False,
    ) -> None:
        self.relations = relations
        self.names = names
        self.except_for = except_for
        self.is_symmetric = is_symmetric
        self.provenance = {"wordnet": relations.wordnet.version, "relations": ", ".join(sorted(names))}

    def scores(self, substitutions: Sequence[Substitution]) -> Scores:
        """1 for related words, else 0."""
        found = map(self._between, substitutions)
        return np.array([bool(self.names & names) and not self.except_for & names for names in found], np.float64)

    def reads(self) -> tuple[object, ...]:
        """WordNet's digest, and the relations."""
        symmetric = ("symmetric",) if self.is_symmetric else ()
        return self.relations.wordnet.digest, sorted(self.names), sorted(self.except_for), *symmetric

    def _between(self, s: Substitution) -> frozenset[Relation]:
        there = self.relations.between(s.target, s.substitute, s.pos)
        return there | self.relations.between(s.substitute, s.target, s.pos) if self.is_symmetric else there


class SynonymTableScorer(SubstitutionScorer):
    """Score 1 if WordNet's table for training lists the pair, for a vocabulary that contains both words, else 0.

    As in the table, any part of speech counts.

    Args:
        wordnet: The lexicon.
        forms: Which table: see ``lexicon.table.build_table``.
    """

    def __init__(self, wordnet: WordNet, forms: Forms) -> None:
        self.wordnet = wordnet
        self.forms = forms
        self.provenance = {"wordnet": wordnet.version, "forms": forms}
        self._is_listed = lru_cache(maxsize=1 << 16)(partial(is_listed, wordnet=wordnet, forms=forms))

    def scores(self, substitutions: Sequence[Substitution]) -> Scores:
        """1 for listed pairs, else 0."""
        return np.array([self._is_listed(s.target, s.substitute) for s in substitutions], dtype=np.float64)

    def reads(self) -> tuple[object, ...]:
        """WordNet's digest, and the forms."""
        return self.wordnet.digest, self.forms


class SameClassScorer(SubstitutionScorer):
    """Score 1 if both words are months or days, both are numbers, or one is a name: close, but never interchangeable.

    Args:
        kind: ``calendar``, ``number`` or ``name``.
        wordnet: Distinguishes names from other words, also in texts without capitals.
    """

    def __init__(self, kind: str, wordnet: WordNet) -> None:
        self.kind = kind
        self.wordnet = wordnet
        self.provenance = {"class": kind, "wordnet": wordnet.version}

    def scores(self, substitutions: Sequence[Substitution]) -> Scores:
        """1 where the class applies, else 0."""
        return np.array([self._applies(s) for s in substitutions], dtype=np.float64)

    def reads(self) -> tuple[object, ...]:
        """The kind, and WordNet's digest if it is used."""
        return self.kind, self.wordnet.digest if self.kind == "name" else ""

    def _applies(self, substitution: Substitution) -> bool:
        words = (substitution.target, substitution.substitute)
        if self.kind == "name":
            return any(self._is_name(word, substitution) for word in words)
        if self.kind == "number":
            return all(is_number(word) for word in words)
        return all(word.lower() in MONTHS_AND_DAYS for word in words)

    def _is_name(self, word: str, batch: Substitution) -> bool:
        """Whether WordNet lists a word only as an instance, or does not list it and it is capitalised."""
        if word in self.wordnet:
            return is_individual(word, self.wordnet)
        begins_sentence = batch.text[: batch.start].rstrip()[-1:] in ("", ".", "!", "?", '"', "“", ":")
        return casing(word) == "title" and not begins_sentence and word.lower() not in STOP_WORDS


def lexical(leaf: Leaf, resources: Resources) -> SubstitutionScorer:
    """Accept synonyms in WordNet, in any sense; [forms=retrieved] for the paper's table, [forms=lemma|agree] for ours.

    Without ``forms``, synonyms are accepted in all forms; forms of the target itself are not.
    """
    leaf.check(argument=False, options=("forms",))
    if "forms" not in leaf.options:
        return RelationScorer(resources.relations, frozenset({"synonym"}))
    return SynonymTableScorer(resources.relations.wordnet, _forms(leaf, "agree"))


def first_sense(leaf: Leaf, resources: Resources) -> RelationScorer:
    """Accept synonyms in the word's most frequent sense."""
    return _related(leaf, resources, "first synonym")


def antonym(leaf: Leaf, resources: Resources) -> RelationScorer:
    """Accept antonyms in WordNet, including those of synonyms; as a veto: !antonym."""
    return _related(leaf, resources, "antonym", "opposite", is_symmetric=True)


def sister(leaf: Leaf, resources: Resources) -> RelationScorer:
    """Accept words that share a hypernym and are not synonyms in any sense; for use as a veto."""
    return _related(leaf, resources, "sister", except_for=frozenset({"synonym"}))


def hypernym(leaf: Leaf, resources: Resources) -> RelationScorer:
    """Accept more general words."""
    return _related(leaf, resources, "hypernym")


def calendar(leaf: Leaf, resources: Resources) -> SameClassScorer:
    """Accept one month or day for another; for use as a veto."""
    return _of_one_class(leaf, resources)


def number(leaf: Leaf, resources: Resources) -> SameClassScorer:
    """Accept one number for another; for use as a veto."""
    return _of_one_class(leaf, resources)


def name(leaf: Leaf, resources: Resources) -> SameClassScorer:
    """Accept pairs in which either word is a name; for use as a veto."""
    return _of_one_class(leaf, resources)


def _related(
    leaf: Leaf,
    resources: Resources,
    *names: Relation,
    except_for: frozenset[Relation] = frozenset(),
    is_symmetric: bool = False,
) -> RelationScorer:
    leaf.check(argument=False)
    return RelationScorer(resources.relations, frozenset(names), except_for, is_symmetric=is_symmetric)


def _of_one_class(leaf: Leaf, resources: Resources) -> SameClassScorer:
    leaf.check(argument=False)
    return SameClassScorer(leaf.name, resources.relations.wordnet)


def make_detector(leaf: Leaf, tokenizer: PreTrainedTokenizerFast, resources: Resources) -> TableDetector:
    """Compile WordNet's synonyms into a lookup table for a tokenizer, or load it from the cache.

    Its ``forms`` are the leaf's own, or else those of the run's configuration (``correction.forms``).

    Raises:
        LexiconError: if WordNet is not found.
    """
    leaf.check(argument=False, options=("forms",))
    forms = _forms(leaf, resources.forms)
    return TableDetector(cached_table(tokenizer, wordnet=resources.wordnet or None, forms=forms))


def _forms(leaf: Leaf, default: Forms) -> Forms:
    return cast(Forms, leaf.choice("forms", FORMS)) if "forms" in leaf.options else default
