"""A page as a browser would see it."""

from __future__ import annotations

from html.parser import HTMLParser


class Page(HTMLParser):
    """Its tags with their attributes, where it links to, and its words, with single spaces; not its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.is_shown = True
        self.feed(text)
        self.words = " ".join(self.words.split())
        self.tags = [tag for tag, _ in self.elements]
        self.links = [attrs[name] for _, attrs in self.elements for name in ("src", "href") if attrs.get(name)]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.is_shown = tag not in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self.is_shown = True

    def handle_data(self, data: str) -> None:
        self.words += data if self.is_shown else ""
