"""Text that other programs wrote: its encoding, and its CSV delimiter and rows."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator

from trueneg.errors import TruenegError

LONGEST_TEXT = 64 << 20
"""Maximum characters, or bytes, of one text of a file: more than any book has, and little of a machine's memory."""

_MARKS = {b"\xff\xfe\x00\x00": "utf-32", b"\x00\x00\xfe\xff": "utf-32", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


def foreign_encoding(start: bytes) -> str | None:
    r"""Detect UTF-16 and UTF-32 from the first bytes of a file: a byte order mark, or NUL in every second byte.

    Returns:
        The name of the encoding for ``iconv``; None if the file may be UTF-8.

    Example:
        >>> foreign_encoding("word".encode("utf-16")), foreign_encoding("a word".encode("utf-16-le"))
        ('utf-16', 'utf-16le')
        >>> foreign_encoding(b"a word")
    """
    for mark, name in _MARKS.items():
        if start.startswith(mark):
            return name
    half = len(start) // 2
    nuls = [start[parity : 2 * half : 2].count(0) for parity in (0, 1)]
    # Western text: nearly every second byte is NUL, and none of the others.
    if half and max(nuls) > 0.7 * half and not min(nuls):
        return "utf-16be" if nuls[0] else "utf-16le"
    return None


def conversion(start: bytes) -> str:
    """Advice for a file that is not UTF-8: a command, with the encoding if the first bytes show it."""
    return f"convert it, as with 'iconv -f {foreign_encoding(start) or 'latin1'} -t utf-8'"


def delimiter_of(header: str) -> str:
    """Delimiter of a CSV file: a comma, unless the first line has none but has semicolons, tabs or bars.

    Example:
        >>> delimiter_of("text,label"), delimiter_of("text;label"), delimiter_of("text")
        (',', ';', ',')
    """
    if "," in header:
        return ","
    found = max(";\t|", key=header.count)
    return found if found in header else ","


def is_unicode(text: str) -> bool:
    r"""Whether a text can be encoded: JSON may hold half of a surrogate pair, which is no character.

    Example:
        >>> is_unicode("\U0001f600"), is_unicode("\ud83d")
        (True, False)
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def csv_rows(
    path: object, lines: Iterable[str], delimiter: str, error: type[TruenegError], *, longest: int = LONGEST_TEXT
) -> Iterator[tuple[int, list[str]]]:
    """Read the rows of CSV, each with the number of its first line; quoted cells may contain line breaks.

    Args:
        path: File name for messages.
        lines: Lines, including their line ends.
        delimiter: Separator of cells.
        error: Class of the errors raised.
        longest: Maximum characters of a row.

    Raises:
        TruenegError: of class ``error``, naming file and line: for unbalanced quotes, or a row that is too long.
    """
    first, size = 1, 0

    def fed() -> Iterator[str]:
        nonlocal size
        for line in lines:
            size += len(line)
            if size > longest:
                raise error(
                    f"{path}:{first}: the row that begins here has over {longest:,} characters: a quote is open in it, "
                    f"or it holds too long a text"
                )
            yield line

    # This limit is global to the process. Rows are limited here anyway, so it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), longest))
    reader = csv.reader(fed(), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            yield first, row
            first, size = reader.line_num + 1, 0
    except csv.Error as fault:
        raise error(f"{path}:{first}: {fault}: fix the quotes of the row that begins here") from fault
