"""Turn a question and an answer into a sentence by patterns over the question's constituency tree.

The patterns, their order and the way they match are those of ``convert_questions.py`` of
github.com/robinjia/adversarial-squad (Copyright (c) 2017 Robin Jia, MIT licence). The trees come from any parser that
gives Penn brackets; none is built in. A parser is a callable from a question to its tree, or to None:

    parser = read_trees("trees.jsonl")                    # lines {"question": "…", "tree": "(ROOT (SBARQ …"}
    parser = lambda question: str(stanza_pipeline(question).sentences[0].constituency)
    parser = lambda question: benepar_parser.parse(question).pformat()
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from trueneg.attacks.squad.edits import Edit
from trueneg.errors import TaskError
from trueneg.lexicon.morphology import inflections
from trueneg.tasks.records import read_lines

Parser = Callable[[str], str | None]
"""Gives the bracketed tree of a question, or None if it has none for it."""

_ESCAPED = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}", "``": '"', "''": '"'}
_WH_PHRASES = ("WHNP", "WHADJP", "WHADVP", "WHPP")


@dataclass(frozen=True)
class Tree:
    """A constituent: a word with its tag, or a phrase."""

    tag: str
    word: str = ""
    children: tuple[Tree, ...] = ()

    @property
    def leaves(self) -> list[Tree]:
        """Its words, in order."""
        return [self] if not self.children else [leaf for child in self.children for leaf in child.leaves]

    @property
    def phrase(self) -> str:
        """Its words as text."""
        return _joined([leaf.word for leaf in self.leaves])


def read_trees(path: str | Path) -> Parser:
    """Read trees that some parser has made: JSON lines with ``question`` and ``tree``.

    Raises:
        TaskError: if the file cannot be read, or for a line that is none.
    """
    trees: dict[str, str] = {}
    for number, line in read_lines(Path(path)):
        try:
            entry = json.loads(line)
            question, tree = str(entry["question"]), entry["tree"]
            read_tree(tree)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise TaskError(
                f"{path}, line {number}: no JSON with 'question' and a bracketed 'tree' ({error})"
            ) from error
        trees[question.strip()] = tree
    return lambda question: trees.get(question.strip())


def read_tree(text: str) -> Tree:
    """Read Penn brackets.

    Raises:
        ValueError: if the brackets do not match, or stand for no tree.

    Example:
        >>> read_tree("(ROOT (SBARQ (WHNP (WP Who)) (VP (VBD won)) (. ?)))").phrase
        'Who won?'
    """
    tokens = re.findall(r"\(|\)|[^\s()]+", text)
    stack: list[tuple[str, list[Tree | str]]] = [("", [])]
    for at, token in enumerate(tokens):
        if token == "(":
            has_tag = at + 1 < len(tokens) and tokens[at + 1] not in "()"
            stack.append((tokens[at + 1] if has_tag else "", []))
        elif token == ")":
            tag, parts = stack.pop()
            if not stack or not parts:
                raise ValueError("the brackets do not match, or one is empty")
            words = [part for part in parts if isinstance(part, str)]
            children = tuple(part for part in parts if isinstance(part, Tree))
            if bool(words) == bool(children) or len(words) > 1:
                raise ValueError("a constituent has words and constituents, or several words")
            stack[-1][1].append(Tree(tag, _ESCAPED.get(words[0], words[0]) if words else "", children))
        elif at == 0 or tokens[at - 1] != "(":
            stack[-1][1].append(token)
    if len(stack) != 1 or len(stack[0][1]) != 1 or not isinstance(stack[0][1][0], Tree):
        raise ValueError("the brackets do not match, or there is more than one tree")
    return stack[0][1][0]


def declarative_by_tree(question: str, tree: str, edits: Sequence[Edit], answer: str) -> tuple[str, str] | None:
    """Make a sentence of an altered question and an answer.

    Args:
        question: the question as it was parsed.
        tree: its tree.
        edits: how it was altered: changed words take the places of the old ones in the tree.
        answer: what stands for the question phrase.

    Returns:
        The sentence and its pattern; None if the tree is not of the question or has no question phrase.
    """
    try:
        parsed = read_tree(tree)
    except ValueError:
        return None
    words = _altered_leaves(question, [leaf.word for leaf in parsed.leaves], edits)
    if words is None:
        return None
    replaced = _with_words(parsed, iter(words))
    if replaced is None:
        return None
    root = _compressed(replaced, inside=False)
    for pattern, template, tenses in _CONVERSIONS:
        found = _by_pattern(root, pattern, template, tenses, answer)
        if found:
            return _styled(found), pattern
    text, is_found = _rightmost(root, answer)
    return (_styled(text), "FindWHP") if is_found else None


def _altered_leaves(question: str, leaves: Sequence[str], edits: Sequence[Edit]) -> list[str] | None:
    """The leaves of the altered question: the first that an edit touches takes its text, the others are empty."""
    at, words, used = 0, [], set[Edit]()
    for leaf in leaves:
        start = (
            question.find(leaf, at)
            if leaf != '"'
            else next((i for i in range(at, len(question)) if question[i] in "\"“”'"), -1)
        )
        if start < 0 or question[at:start].strip():
            return None
        at = start + len(leaf)
        touching = [edit for edit in edits if edit.start < at and start < edit.end]
        if touching:
            words.append("" if touching[0] in used else touching[0].text)
            used.update(touching)
        else:
            words.append(leaf)
    return words


def _with_words(tree: Tree, words: Iterator[str]) -> Tree | None:
    """The tree with other words; without what became empty."""
    if not tree.children:
        word = next(words)
        return Tree(tree.tag, word) if word else None
    children = tuple(child for child in [_with_words(child, words) for child in tree.children] if child is not None)
    return Tree(tree.tag, "", children) if children else None


def _compressed(tree: Tree, *, inside: bool) -> Tree:
    """Make of every WHNP a question word and one NP."""
    if not tree.children:
        return tree
    children = [_compressed(child, inside=inside or tree.tag == "WHNP") for child in tree.children]
    if tree.tag != "WHNP":
        whole = Tree(tree.tag, "", tuple(children))
        return Tree("NP", "", (whole,)) if inside else whole
    first, nouns, siblings = children[0], list[Tree](), list[Tree]()
    if first.tag in ("WHNP", "WHADJP", "WHAVP", "WHPP") and first.children:
        wh = first.children[0]
        nouns += first.children[1:]
    elif first.tag in ("WDT", "WP", "WP$", "WRB"):
        wh = first
    else:
        return Tree(tree.tag, "", tuple(children))
    for at, child in enumerate(children[1:], 1):
        if child.tag == "SQ":  # of a bad parse
            siblings = children[at:]
            break
        nouns.append(Tree("NP", "", (child,)))
    phrase = Tree("WHNP", "", (wh, Tree("NP", "", tuple(nouns)))) if nouns else Tree("WHNP", "", (wh,))
    return Tree("SBARQ", "", (phrase, *siblings)) if siblings else phrase


_MACROS = {
    "$Noun": "$NP/$NN/$NNS/$NNP/$NNPS",
    "$Verb": "$VB/$VBD/$VBP/$VBZ",
    "$Part": "$VBN/$VG",
    "$Be": "is/are/was/were",
    "$Do": "do/did/does/don't/didn't/doesn't",
    "$WHP": "$WHADJP/$WHADVP/$WHNP/$WHPP",
}
_ASK = "$WHP:what/which/who"
_ASK_HOW = "$WHP:what/which/who/how"
_WHEN = "$WHP:when/where"

# What is matched; what is written, {0} for the answer and {n} for the n-th part that is no plain word; and of which
# part another takes the tense (a part's number), or what form it takes.
_CONVERSIONS: tuple[tuple[str, str, dict[int, int | str]], ...] = (
    ("$WHP:what $Be $NP called that $VP", "{2} that {3} {1} called {1}", {}),
    ("how $JJ $Be $NP $IN $NP", "{3} {2} {0} {1} {4} {5}", {}),
    ("how $JJ $Be $NP $SBAR", "{3} {2} {0} {1} {4}", {}),
    ("how $JJ $Be $NP", "{3} {2} {0} {1}", {}),
    (f"{_WHEN} $Do $NP", "{3} occurred in {1}", {}),
    (f"{_WHEN} $Do $NP $Verb", "{3} {4} in {1}", {4: 2}),
    (f"{_WHEN} $Do $NP $Verb $NP/$PP", "{3} {4} {5} in {1}", {4: 2}),
    (f"{_WHEN} $Do $NP $Verb $NP $PP", "{3} {4} {5} {6} in {1}", {4: 2}),
    (f"{_WHEN} $Be $NP", "{3} {2} in {1}", {}),
    (f"{_WHEN} $Verb $NP $VP/$ADJP", "{3} {2} {4} in {1}", {}),
    (f"{_ASK} $Do $NP do", "{3} {1}", {0: 2}),
    (f"{_ASK_HOW} $Do $NP $Verb", "{3} {4} {1}", {4: 2}),
    (f"{_ASK} $Do $NP $Verb $IN/$NP", "{3} {4} {5} {1}", {4: 2, 0: "VBG"}),
    (f"{_ASK} $Do $NP $Verb $PP", "{3} {4} {1} {5}", {4: 2, 0: "VBG"}),
    (f"{_ASK} $Do $NP $Verb $NP $VP", "{3} {4} {5} {6} {1}", {4: 2}),
    (f"{_ASK} $Do $NP $Verb to $VB", "{3} {4} to {5} {1}", {4: 2}),
    (f"{_ASK} $Do $NP $Verb to $VB $VP", "{3} {4} to {5} {1} {6}", {4: 2}),
    (f"{_ASK_HOW} $Do $NP $Verb $NP $IN $VP", "{3} {4} {5} {6} {1} {7}", {4: 2}),
    (f"{_ASK_HOW} $Do $NP $Verb $PP/$S/$VP/$SBAR/$SQ", "{3} {4} {1} {5}", {4: 2}),
    (f"{_ASK_HOW} $Do $NP $Verb $PP $PP/$S/$VP/$SBAR", "{3} {4} {1} {5} {6}", {4: 2}),
    (f"{_ASK} $Be/$MD $NP of $NP $Verb/$Part $IN", "{3} of {4} {2} {5} {6} {1}", {}),
    (f"{_ASK} $Be/$MD $NP $NP $IN", "{3} {2} {4} {5} {1}", {}),
    (f"{_ASK} $Be/$MD $NP $VP/$IN", "{3} {2} {4} {1}", {}),
    (f"{_ASK} $Be/$MD $NP $IN $NP/$VP", "{1} {2} {3} {4} {5}", {}),
    (f"{_ASK} $Be/$MD $NP $Verb $PP", "{3} {2} {4} {1} {5}", {}),
    (f"{_ASK} $Be/$MD $NP/$VP/$PP", "{1} {2} {3}", {}),
    ("$WHP:how $Be/$MD $NP $VP", "{3} {2} {4} by {1}", {}),
    (f"{_ASK} $VP", "{1} {2}", {}),
    ("$IN what/which $NP $Do $NP $Verb $NP", "{5} {6} {7} {1} the {3} of {0}", {1: "lower", 6: 4}),
    ("$IN what/which $NP $Be $NP $VP/$ADJP", "{5} {4} {6} {1} the {3} of {0}", {1: "lower"}),
    ("$IN what/which $NP $Verb $NP/$ADJP $VP", "{5} {4} {6} {1} the {3} of {0}", {1: "lower"}),
)
_KIND = "what/which type/sort/kind/group of $NP/$Noun"
_PHRASES: tuple[tuple[str, str], ...] = (
    (f"$IN {_KIND}", "{1} {0} {4}"),
    (f"$IN {_KIND} $PP", "{1} {0} {4} {5}"),
    ("$IN what/which $NP", "{1} the {3} of {0}"),
    ("$IN $WP/$WDT", "{1} {0}"),
    (_KIND, "{0} {3}"),
    (f"{_KIND} $PP", "{0} {3} {4}"),
    ("what/which $NP", "the {2} of {0}"),
    ("how many/much $NP", "{0} {2}"),
)
_REPLACED = ("what", "who", "how many", "how much", "which", "where", "when", "why", "how")


def _by_pattern(
    root: Tree, pattern: str, template: str, tenses: dict[int, int | str], answer: str, *, has_lead: bool = True
) -> str | None:
    parts = pattern.split(" ")
    match, lead = _match(pattern, root), ""
    for opening in ("$PP , ", "$SBAR , ") if has_lead and match is None else ():
        match = _match(opening + pattern, root)
        if match is not None:
            lead = f"{match[0].phrase}, "
            match = match[2:]
            break
    if match is None:
        return None
    values = [answer]
    for part, node in zip(parts, match, strict=False):
        if part.startswith("$") or "/" in part:
            values.append((_converted(node, answer) if has_lead else None) or node.phrase)
    for place, form in tenses.items():
        values[place] = values[place].lower() if form == "lower" else _in_form(values[place], _form(values, form))
    return lead + template.format(*values)


def _form(values: Sequence[str], form: int | str) -> str:
    if isinstance(form, str):
        return form
    return {"did": "VBD", "does": "VBZ"}.get(values[form].lower().removesuffix("n't"), "VB")


def _in_form(text: str, tag: str) -> str:
    """A verb, the first word of a text, in a form; text that is no verb as it is."""
    verb, space, rest = text.partition(" ")
    found = inflections(verb.lower(), "v").get(tag)
    return (found[0] if found else verb) + space + rest


def _match(pattern: str, root: Tree) -> list[Tree] | None:
    """The constituents or words, from left to right, that a pattern stands for; all of the tree must be used."""
    parts = pattern.split(" ")
    last = root.leaves[-1].word
    if last in ("?", "."):
        parts.append(last)

    def go_on(at: int, stack: tuple[Tree, ...]) -> list[Tree] | None:
        if at == len(parts):
            return [] if not stack else None
        if not stack:
            return None
        node, rest = stack[0], stack[1:]
        if _is(node, parts[at]):
            found = go_on(at + 1, rest)
            if found is not None:
                return [node, *found]
        return go_on(at, (*node.children, *rest)) if node.children else None

    return go_on(0, (root,))


def _is(node: Tree, part: str) -> bool:
    part = _MACROS.get(part, part)
    if ":" in part:
        kind, starts = part.split(":")
        return _is(node, kind) and node.phrase.lower().startswith(tuple(starts.split("/")))
    if "/" in part:
        return any(_is(node, one) for one in part.split("/"))
    if part.startswith("$"):
        return part[1:] == node.tag
    return bool(node.word) and part.lower() == node.word.lower()


def _converted(node: Tree, answer: str) -> str | None:
    """A question phrase with the answer in it; None for any other constituent."""
    if node.tag not in _WH_PHRASES:
        return None
    for pattern, template in _PHRASES:
        found = _by_pattern(node, pattern, template, {}, answer, has_lead=False)
        if found:
            return found
    words = node.phrase.split(" ")
    for target in _REPLACED:
        wanted = target.split(" ")
        for at in range(len(words) - len(wanted) + 1):
            if [word.lower().rstrip(",") for word in words[at : at + len(wanted)]] == wanted:
                return " ".join([*words[:at], answer, *words[at + len(wanted) :]])
    return answer


def _rightmost(node: Tree, answer: str, is_found: bool = False) -> tuple[str, bool]:
    """The text with its last question phrase replaced."""
    if not node.children:
        return node.word, is_found
    if not is_found:
        phrase = _converted(node, answer)
        if phrase:
            return phrase, True
    parts = []
    for child in reversed(node.children):
        part, is_found = _rightmost(child, answer, is_found)
        parts.append(part)
    return _joined(parts[::-1]), is_found


def _joined(words: Sequence[str]) -> str:
    text = " ".join(word for word in words if word)
    return re.sub(r" (?=[,.;:?!%)\]]|'s\b|'\s|n't\b)|(?<=[(\[$]) ", "", text)


def _styled(text: str) -> str:
    text = text.replace("?", "").strip(" .")
    return text[:1].upper() + text[1:] + "."
