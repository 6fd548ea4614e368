"""Make text of unknown origin safe to show on a terminal or to open in a spreadsheet."""

from __future__ import annotations

import re

_CONTROL = re.compile(
    # C0 and C1 controls, DEL, line and paragraph separators, bidirectional controls, and surrogates.
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_FORMULA = re.compile(r"^[=+\-@\t\r]")
_NUMBER = re.compile(r"^[+-]?(\d[\d,]*\.?\d*|\.\d+)([eE][+-]?\d+)?%?$")


def printable(text: str) -> str:
    r"""Show control and unencodable characters as escapes such as ``\x1b``, line breaks and tabs as spaces.

    Example:
        >>> printable("a\x1b]0;title\x07b\nc")
        'a\\x1b]0;title\\x07b c'
    """
    return _CONTROL.sub(lambda found: " " if found[0] in "\n\t\r" else _escaped(found[0]), text)


def printable_lines(text: str) -> str:
    """Do the same as ``printable``, but keep line breaks."""
    return "\n".join(printable(line) for line in text.split("\n"))


def printable_json(text: str) -> str:
    r"""Equivalent JSON in which control characters are written as JSON's own escapes.

    Example:
        >>> printable_json('["a\x9bm"]')
        '["a\\u009bm"]'
    """
    # Outside strings, the only control characters of JSON are line breaks, which may stay.
    return "\n".join(_CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", line) for line in text.split("\n"))


def spreadsheet_cell(text: str) -> str:
    """Text for a CSV cell that no spreadsheet reads as a formula: what looks like one gets a leading apostrophe.

    Example:
        >>> spreadsheet_cell("=1+1"), spreadsheet_cell("-0.5"), spreadsheet_cell("plain")
        ("'=1+1", '-0.5', 'plain')
    """
    text = printable(text)
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.match(text) else text


def short_path(place: str) -> str:
    """At most the last two parts of a path, for uploads: the rest would reveal details of the machine.

    Example:
        >>> short_path("/home/ann/models/minilm/"), short_path("org/name")
        ('models/minilm', 'org/name')
    """
    parts = [part for part in re.split(r"[/\\]", place) if part not in ("", ".", "..")]
    return "/".join(parts[-2:])


def _escaped(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"
