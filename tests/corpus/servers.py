"""Text that is not local: an HTTP server that can lose a file in the middle, and hub data sets."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import datasets
import pytest


@dataclass
class Served:
    """A folder behind ``url``.

    Attributes:
        url: Of the folder.
        breaks: Bytes after which the connection is closed, by name of a file; the first request is answered in full,
            and the length told stays the whole one.
        num_gets: Requests for each file.
        has_ranges: Whether parts of files can be asked for, as object stores have it.
    """

    url: str
    breaks: dict[str, int] = field(default_factory=dict)
    num_gets: Counter[str] = field(default_factory=Counter)
    has_ranges: bool = True


@contextmanager
def http_server(folder: Path) -> Iterator[Served]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            name = self.path.lstrip("/").partition("?")[0]
            path = folder / name
            if not path.is_file():
                self.send_error(404)
                return
            data, status = path.read_bytes(), 200
            start, stop = 0, len(data)
            if (asked := self.headers.get("Range")) and served.has_ranges:
                first, _, last = asked.removeprefix("bytes=").partition("-")
                start, stop, status = int(first), min(int(last) + 1 if last else len(data), len(data)), 206
            self.send_response(status)
            self.send_header("Content-Length", str(stop - start))
            self.send_header("ETag", str(hash(data)))
            self.send_header("Accept-Ranges", "bytes" if served.has_ranges else "none")
            if status == 206:
                self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(data)}")
            self.end_headers()
            if self.command == "GET":
                served.num_gets[name] += 1
                end = served.breaks.get(name, stop) if served.num_gets[name] > 1 else stop
                self.wfile.write(data[start : max(start, min(stop, end))])
                self.close_connection = True

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served = Served(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def make_local(monkeypatch: pytest.MonkeyPatch, name: str, folder: Path) -> None:
    """Let a name of the hub stand for a folder of this machine; everything behind it is the library's own."""
    load = datasets.load_dataset_builder

    def local(repository: str, *arguments: Any) -> Any:
        assert repository == name
        return load(str(folder), *arguments)

    monkeypatch.setattr(datasets, "load_dataset_builder", local)
