"""TextFooler (Jin et al. 2020): words are replaced by near neighbours until a classifier's prediction changes.

Two profiles match the implementations with which results were published; results must name profile and encoder. Both
use counter-fitted neighbours; both were run with the Universal Sentence Encoder, which is not a dependency here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from trueneg.attacks.base import AdversarialExample, Attack
from trueneg.attacks.setup import AttackSetup
from trueneg.attacks.victim import Classifier
from trueneg.attacks.word_substitution.greedy import Candidates, GreedyOptions, Place, greedy_attack, greedy_needs
from trueneg.attacks.word_substitution.neighbours import NeighbourTable, neighbours_by_vectors
from trueneg.attacks.word_substitution.similarity import Similarity
from trueneg.attacks.words import WORDS, Passage, with_case_of
from trueneg.config.fields import option
from trueneg.lexicon.stopwords import STOP_WORDS
from trueneg.lexicon.tagging import Tagger
from trueneg.lexicon.vectors import Vectors
from trueneg.tasks.text import TextExample

_ALSO = """
    across afterwards almost alone along already also although among amongst another anyhow anyone anything anyway
    anywhere around back beforehand behind beside besides beyond cannot could due either else elsewhere empty enough
    even ever everyone everything everywhere except first former formerly hence hereafter hereby herein hereupon
    however hundred indeed latter latterly least may meanwhile mine moreover mostly must namely neither never
    nevertheless next nobody none noone nothing nowhere one onto others otherwise per please somehow something
    sometime somewhere thence thereafter thereby therefore therein thereupon throughout thru thus toward towards
    unless upon used whatever whence whenever whereafter whereas whereby wherein whereupon wherever whether whither
    whoever whole whose within without would yet
"""
_NOT = """
    be because did do does doing each few further had has have having m ma own re should so some very will
"""
TEXTFOOLER_STOP_WORDS: frozenset[str] = (STOP_WORDS | frozenset(_ALSO.split())) - frozenset(_NOT.split())
"""The 266 words that both implementations do not replace."""


@dataclass(frozen=True, kw_only=True)
class TextFoolerOptions(GreedyOptions):
    """One of the ``PROFILES``, or a variation."""

    stop_words: frozenset[str] = TEXTFOOLER_STOP_WORDS
    num_neighbours: int = option(50, at_least=1)
    """Maximum number of candidates for a word."""
    min_cosine: float = option(0.5, at_least=-1, at_most=1)
    """Minimum cosine of a neighbour, if the table has cosines."""


PROFILES: Mapping[str, TextFoolerOptions] = MappingProxyType(
    {
        "textattack": TextFoolerOptions(),
        "jin2019": TextFoolerOptions(
            words="jin2019",
            pair_is_context=False,
            ignores_case=True,
            importance="jin2019",
            part_of_speech="jin2019",
            max_angle_short=0.9,
            steps="jin2019",
            counts_filtered=True,
            counts_skipped=False,
        ),
    }
)
"""``textattack``: TextFoolerJin2019 of TextAttack 0.3.11. ``jin2019``: the authors' code, with the similarity of 0.5
that they advise. They also lower-case texts and drop most punctuation first, which is not done here."""


def make_textfooler(setup: AttackSetup) -> Attack:
    """Replace words by counter-fitted neighbours until a classifier errs (Jin et al. 2020): --neighbours FILE."""
    options = setup.options(PROFILES, greedy_needs(setup.config.encoder))
    neighbours, similarity, tagger = setup.neighbours, setup.similarity(), setup.tagger
    run = partial(textfooler, neighbours=neighbours, tagger=tagger, similarity=similarity, options=options)
    return Attack(run, options, queries_victim=True)


def neighbour_candidates(neighbours: NeighbourTable, num: int = 50, min_cosine: float = 0.5) -> Candidates:
    """Make a source of candidates from a table of neighbours; candidates get the case of the word they replace."""

    def propose(places: Sequence[Place]) -> list[list[str]]:
        return [
            [with_case_of(near, place.word) for near in neighbours.near(place.word, num, min_cosine)]
            for place in places
        ]

    return propose


def textfooler(
    victim: Classifier,
    examples: Sequence[TextExample],
    *,
    neighbours: NeighbourTable | Vectors,
    tagger: Tagger | None,
    similarity: Similarity | None,
    options: TextFoolerOptions = PROFILES["textattack"],
    at_once: int = 32,
    progress: Callable[[int, int], None] | None = None,
) -> list[AdversarialExample[TextExample]]:
    """Attack examples with TextFooler.

    Args:
        victim: The model.
        examples: Texts, or pairs of texts, with labels of the victim's.
        neighbours: Of words; or word vectors to compute those of the examples' words. They should be counter-fitted:
            others have antonyms as neighbours.
        tagger: Needed unless ``options.part_of_speech`` is "any".
        similarity: Of the text around a change before and after it; None for no limit.
        options: A profile, or a variation of one.
        at_once: Number of examples that are attacked concurrently.
        progress: Called after each example with the number done, and the total.

    Returns:
        One adversarial example each, in order; see ``greedy_attack``.

    Raises:
        TaskError: for an example without a label, or with one that the victim does not have.
        ConfigError: if a tagger is needed and there is none.
    """
    if isinstance(neighbours, Vectors):
        words = {word for example in examples for word in Passage.of(example, WORDS[options.words]).words}
        neighbours = neighbours_by_vectors(neighbours, words, num=options.num_neighbours, min_cosine=options.min_cosine)
    return greedy_attack(
        victim,
        examples,
        neighbour_candidates(neighbours, options.num_neighbours, options.min_cosine),
        options=options,
        tagger=tagger,
        similarity=similarity,
        at_once=at_once,
        progress=progress,
    )
