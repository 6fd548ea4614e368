"""A real browser for the tests of pages: the system's Chromium, without a window and without a network."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = next(filter(None, map(shutil.which, (os.environ.get("CHROMIUM", ""), *NAMES))), None)
    if found is None:
        pytest.fail("no Chromium or Chrome: run scripts/install-chromium, as make test does")
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=found, args=root)
        yield launched
        launched.close()


@pytest.fixture
def show(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open a page; at the end nothing may have been fetched, said on the console, or popped up."""
    contexts, wrong = [], []

    def opened(path: Path, **options: Any) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
        page.on(
            "request", lambda request: request.url.startswith(("file:", "data:", "blob:")) or wrong.append(request.url)
        )
        page.goto(path.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []
