"""Detectors written as text: what is read, what is refused, and what is made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_encoders import WORDNET, wordpiece

from trueneg.config.objective_options import CorrectionConfig
from trueneg.detectors import make_detector, make_scorer
from trueneg.detectors.combination import CombinedDetector, CombinedScorer
from trueneg.detectors.ema import EmaDetector
from trueneg.detectors.online import OnlineDetector
from trueneg.detectors.scorers.contextual import ContextualScorer
from trueneg.detectors.scorers.lexical import RelationScorer
from trueneg.detectors.specification import Combination, Leaf, Resources, Specification, leaves, parse
from trueneg.detectors.table import TableDetector
from trueneg.errors import ConfigError
from trueneg.lexicon.table import FORMS


def leaf(
    name: str, argument: str = "", options: Mapping[str, str] | None = None, threshold: float | None = None
) -> Leaf:
    return Leaf(name, argument, options or {}, threshold)


def bare(read: Specification) -> Specification:
    """A specification without the text it was written as."""
    if isinstance(read, Leaf):
        return replace(read, text="")
    return Combination(read.operator, tuple(bare(part) for part in read.parts))


READ: dict[str, Specification] = {
    "lexical": leaf("lexical"),
    " lexical ": leaf("lexical"),
    "lexical@0.5": leaf("lexical", threshold=0.5),
    "contextual:org/model": leaf("contextual", "org/model"),
    "contextual:/a b/c.d_e-f": leaf("contextual", "/a b/c.d_e-f"),
    "contextual:E[layer=3-5,pooling=first]@0.62": leaf("contextual", "E", {"layer": "3-5", "pooling": "first"}, 0.62),
    "contextual:E [ layer = 4 ] @ .62": leaf("contextual", "E", {"layer": "4"}, 0.62),
    "ema[momentum=0.9]": leaf("ema", "", {"momentum": "0.9"}),
    "first-sense[]": leaf("first-sense"),
    "det.json": leaf("calibrated", "det.json"),
    "some/where/det.json": leaf("calibrated", "some/where/det.json"),
    "calibrated:det.json@0.7": leaf("calibrated", "det.json", threshold=0.7),
    "contextual:E.json": leaf("contextual", "E.json"),
    "!antonym": Combination("!", (leaf("antonym"),)),
    "!!antonym": Combination("!", (Combination("!", (leaf("antonym"),)),)),
    "lexical|contextual:E": Combination("|", (leaf("lexical"), leaf("contextual", "E"))),
    "a|b|c": Combination("|", (leaf("a"), leaf("b"), leaf("c"))),
    "contextual:E&!antonym": Combination("&", (leaf("contextual", "E"), Combination("!", (leaf("antonym"),)))),
    "a & b | !c & d.json": Combination(
        "|",
        (
            Combination("&", (leaf("a"), leaf("b"))),
            Combination("&", (Combination("!", (leaf("c"),)), leaf("calibrated", "d.json"))),
        ),
    ),
    "a:x[o=1|2&3,p=!]|b": Combination("|", (leaf("a", "x", {"o": "1|2&3", "p": "!"}), leaf("b"))),
    "a[o=1&2]&b[p=3|4]": Combination("&", (leaf("a", "", {"o": "1&2"}), leaf("b", "", {"p": "3|4"}))),
    "(a | b) & !c": Combination("&", (Combination("|", (leaf("a"), leaf("b"))), Combination("!", (leaf("c"),)))),
    "!(a&b)|((c))": Combination("|", (Combination("!", (Combination("&", (leaf("a"), leaf("b"))),)), leaf("c"))),
    "a:x&(b|c)": Combination("&", (leaf("a", "x"), Combination("|", (leaf("b"), leaf("c"))))),
    "(a:x@0.5|det.json)&b:R&D": Combination(
        "&", (Combination("|", (leaf("a", "x", threshold=0.5), leaf("calibrated", "det.json"))), leaf("b", "R&D"))
    ),
    # Signs that are letters of a path, and signs that are not.
    "annotated:/data/R&D/notes": leaf("annotated", "/data/R&D/notes"),
    "annotated:/data/r|d/notes@0.6": leaf("annotated", "/data/r|d/notes", threshold=0.6),
    "annotated:/data/R&D/notes&!antonym": Combination(
        "&", (leaf("annotated", "/data/R&D/notes"), Combination("!", (leaf("antonym"),)))
    ),
    "/data/R&D/det.json": leaf("calibrated", "/data/R&D/det.json"),
    "lexical|some/det.json": Combination("|", (leaf("lexical"), leaf("calibrated", "some/det.json"))),
    "a:x@0.5&some/det.json": Combination("&", (leaf("a", "x", threshold=0.5), leaf("calibrated", "some/det.json"))),
    "prototypes:/home/me@lab/p.safetensors": leaf("prototypes", "/home/me@lab/p.safetensors"),
    "prototypes:/home/me@2nd/p@0.5": leaf("prototypes", "/home/me@2nd/p", threshold=0.5),
    "contextual:org/model@main[layer=1]@5e-1": leaf("contextual", "org/model@main", {"layer": "1"}, 0.5),
    "neighbours:!odd/v.txt": leaf("neighbours", "!odd/v.txt"),
    'prototypes:"/home/me@0.5"': leaf("prototypes", "/home/me@0.5"),
    'prototypes:"/R & D | x/!p[1]@2"[top=3]@0.5': leaf("prototypes", "/R & D | x/!p[1]@2", {"top": "3"}, 0.5),
    'learned:"E"[vectors="/a, b [1]/v.txt", teacher=T]': leaf(
        "learned", "E", {"vectors": "/a, b [1]/v.txt", "teacher": "T"}
    ),
    'contextual:"a&b"|"R & D/det.json"': Combination(
        "|", (leaf("contextual", "a&b"), leaf("calibrated", "R & D/det.json"))
    ),
    '"!odd/det.json"': leaf("calibrated", "!odd/det.json"),
    '!"det.json"': Combination("!", (leaf("calibrated", "det.json"),)),
}


@pytest.mark.parametrize("text", READ)
def test_what_is_read(text: str) -> None:
    assert bare(parse(text)) == READ[text]


NAMES = st.sampled_from(["lexical", "first-sense", "contextual", "x"])
VALUES = st.text("abc019|&!.-,[]= ", min_size=1, max_size=4)
LEAVES = st.builds(
    leaf,
    NAMES,
    st.text("abc1./_ é&|!@[]", max_size=6).map(str.strip),
    st.dictionaries(st.sampled_from(["layer", "top"]), VALUES, max_size=2),
    st.none() | st.floats(0.01, 1),
)


def combined(parts: st.SearchStrategy[Specification]) -> st.SearchStrategy[Specification]:
    several = st.builds(
        lambda operator, found: Combination(operator, tuple(found)),
        st.sampled_from(["&", "|"]),
        st.lists(parts, min_size=2, max_size=3),
    )
    return several | parts.map(lambda one: Combination("!", (one,)))


def written(specification: Specification) -> str:
    if isinstance(specification, Leaf):
        one = specification
        quoted = {name: f'"{value}"' if set(value) & set(",[] ") else value for name, value in one.options.items()}
        options = ",".join(f"{name}={value}" for name, value in quoted.items())
        return (
            one.name
            + (f':"{one.argument}"' if one.argument else "")
            + (f"[{options}]" if options else "")
            + (f"@{one.threshold}" if one.threshold is not None else "")
        )
    if specification.operator == "!":
        return "!" + written(specification.parts[0])
    return "(" + f" {specification.operator} ".join(written(part) for part in specification.parts) + ")"


@given(st.recursive(LEAVES, combined, max_leaves=8))
def test_what_is_written_is_read_again(specification: Specification) -> None:
    assert bare(parse(written(specification))) == specification
    assert [one.name for one in leaves(specification)] == [one.name for one in leaves(parse(written(specification)))]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "'' is no detector: write NAME"),
        ("lexical|", "'' is no detector"),
        ("& lexical", "'& lexical' is no detector"),
        ("!", "'' is no detector"),
        ("Lexical", "'Lexical'"),
        ("contextual:", "':'"),
        ("contextual:E[layer=4", r"'\[layer=4'"),
        ("contextual:E]layer=4[", r"'\]layer=4\['"),
        ("contextual:E@", "expected a threshold"),
        ("contextual:E@0.5[layer=4]", r"'\[layer=4\]'"),
        ("contextual:E & Lexical", r"'Lexical' is no detector: .* in quotes: NAME:\"SOURCE\""),
        ("lexical&Lexical", "'Lexical'"),
        ('contextual:"E', "':\"E'"),
        ('"det"', "det"),
        ("(lexical", "'' is no detector"),
        ("lexical)", r"'\)'"),
        ("()", r"'\)'"),
        ("lexical antonym", "lexical antonym"),
        ("contextual:/a (copy)/E", r"'\(copy\)/E' is no detector: .* in quotes"),
        ("calibrated:/data/R&D/det.json", "put a path in quotes"),
        ("prototypes:/home/me@2", "got 2 .*in quotes"),
        ("contextual:E[layer]", r"write the option 'layer' as layer=value"),
        ("contextual:E[layer=1,layer=2]", "the option 'layer' is given twice"),
        ("lexical@", "expected a threshold"),
        ("lexical@high", "expected a threshold"),
        ("lexical@1.5", "got 1.5"),
        ("lexical@0", "above 0"),
        ("lexical@nan", "got nan"),
    ],
)
def test_what_is_no_detector(text: str, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lexcial", "unknown detector 'lexcial': did you mean 'lexical'"),
        ("lexical & lexcial", "unknown detector 'lexcial'"),
        ("ema", "'ema' works in training only"),
        ("lexical:x", "'lexical' takes nothing after ':'"),
        ("lexical[forms=retreived]", "unknown forms 'retreived': did you mean 'retrieved'"),
        ("lexical[form=lemma]", "unknown option 'form': did you mean 'forms'"),
        ("antonym[forms=lemma]", "unknown option 'forms'"),
        ("contextual", "say what it is made from, as contextual:ENCODER"),
        ("contextual:E[layr=4]", "did you mean 'layer'"),
        ("contextual:E[layer=x]", "layer=x: expected a number"),
        ("contextual:E[layer=5-3]", "layer=5-3: the lower one first"),
        ("contextual:E[pooling=max]", "unknown pooling 'max'"),
        ("contextual:E[center=yes]", "unknown center 'yes'"),
        ("contextual:E[window=3]", "window=3: must be at least 8"),
        ("contextual:E[window=inf]", "window=inf: must be at least 8"),
        ("contextual:E[window=9.5]", r"window=9\.5: expected a whole number"),
        ("contextual:E[window=wide]", "window=wide: expected a number"),
        ("neighbours", "say what it is made from, as neighbours:VECTORS"),
        ("neighbours:v.txt[top=2.5]", r"top=2\.5: expected a whole number"),
        ("neighbours:v.txt[top=0]", "write @0.6"),
        ("neighbours:v.txt[top=5]@0.6", r"write \[top=10,least=0.6\]"),
        ("neighbours:v.txt[among=all]", "unknown among 'all'"),
        ("neighbours:v.txt[among=vocabulry]", "did you mean 'vocabulary'"),
        ("neighbours:v.txt[among=file]@0.6", "among=file ranks a list: with @0.6 leave it out"),
        ("teacher:E[top=3]", "unknown option 'top'"),
        ("learned:E[relations=maybe]", "unknown relations 'maybe'"),
        ("calibrated", "say what it is made from, as calibrated:FILE"),
        ("nowhere.json", "cannot read 'nowhere.json'"),
    ],
)
def test_scorers_that_cannot_be_made(text: str, message: str, resources: Resources, bert: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_scorer(text.replace(":E", f":{bert}"), resources)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lexcial", "unknown detector 'lexcial'"),
        ("lexical[forms=retreived]", "unknown forms 'retreived': did you mean 'retrieved'"),
        ("fits[forms=lemma]", "unknown option 'forms'"),
        ("learned:E", "has yet to learn: 'trueneg detect calibrate' writes a file that is a detector"),
        ("ema:E", "'ema' takes nothing after ':'"),
        ("ema[momentum=1]", "momentum=1.0: below 1, or the average never moves"),
        ("ema@1", "@1.0 accepts everything or nothing"),
        ("ema[top=0]", "top=0: must be at least 1"),
    ],
)
def test_detectors_that_cannot_be_made(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_detector(CorrectionConfig(detector=text, wordnet=str(WORDNET)), wordpiece())


def test_a_threshold_is_the_scorers(resources: Resources, bert: str) -> None:
    assert make_scorer(f"contextual:{bert}@0.3", resources).threshold == 0.3
    scorer = make_scorer(f"lexical | contextual:{bert}@0.3", resources)
    assert isinstance(scorer, CombinedScorer) and scorer.threshold == 0.5
    assert [type(part) for part in scorer.scorers] == [RelationScorer, ContextualScorer]
    assert scorer.scorers[1].threshold == 0.3


def shape(detector: object) -> object:
    """What a detector is made of, in short."""
    if isinstance(detector, CombinedDetector):
        return (detector.operator, *map(shape, detector.detectors))
    if isinstance(detector, OnlineDetector):
        return ("asked", shape(detector.scorer))
    if isinstance(detector, CombinedScorer):
        return (detector.operator, *map(shape, detector.scorers))
    return type(detector).__name__


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("lexical", "TableDetector"),
        ("!lexical", ("!", "TableDetector")),
        ("hypernym", ("asked", "RelationScorer")),
        ("first-sense & !sister", ("asked", ("&", "RelationScorer", ("!", "RelationScorer")))),
        ("contextual:E", ("asked", "ContextualScorer")),
        ("contextual:E & lexical", ("&", "TableDetector", ("asked", "ContextualScorer"))),
        (
            "contextual:E & fits & !antonym",
            ("&", "FitsDetector", ("asked", ("&", "ContextualScorer", ("!", "RelationScorer")))),
        ),
        ("lexical | contextual:E", ("|", "TableDetector", ("asked", "ContextualScorer"))),
        (
            "contextual:E & ema & !sister",
            ("&", "EmaDetector", ("asked", ("&", "ContextualScorer", ("!", "RelationScorer")))),
        ),
        (
            "(contextual:E | lexical) & !antonym",
            ("&", ("|", "TableDetector", ("asked", "ContextualScorer")), ("!", ("asked", "RelationScorer"))),
        ),
        ("lexical & !ema", ("&", "TableDetector", ("!", "EmaDetector"))),
    ],
)
def test_what_has_a_form_for_training_has_it(text: str, wanted: object, bert: str) -> None:
    config = CorrectionConfig(detector=text.replace(":E", f":{bert}"), wordnet=str(WORDNET))
    assert shape(make_detector(config, wordpiece())) == wanted


def test_the_table_within_a_combination_has_the_configured_forms(bert: str) -> None:
    config = CorrectionConfig(detector=f"lexical | contextual:{bert}", wordnet=str(WORDNET), forms="lemma")
    combined = make_detector(config, wordpiece())
    assert isinstance(combined, CombinedDetector)
    table = combined.detectors[0]
    assert isinstance(table, TableDetector) and table.provenance["forms"] == "lemma"
    assert combined.provenance["0.forms"] == "lemma"


@pytest.mark.parametrize("forms", FORMS)
def test_a_detectors_own_forms_go_before_the_configurations(forms: str) -> None:
    config = CorrectionConfig(detector=f"lexical[forms={forms}]", wordnet=str(WORDNET), forms="lemma")
    assert make_detector(config, wordpiece()).provenance["forms"] == forms


def test_settings_of_the_moving_average() -> None:
    detector = make_detector(CorrectionConfig(detector="ema[momentum=0.5,top=3]@0.2"), wordpiece())
    assert isinstance(detector, EmaDetector)
    assert (detector.momentum, detector.top, detector.threshold) == (0.5, 3, 0.2)


def test_wordnet_is_read_when_it_is_asked_for(tmp_path: Path) -> None:
    nowhere = Resources(wordnet=str(tmp_path))
    with pytest.raises(Exception, match="--wordnet"):
        _ = nowhere.relations
