"""A hub of this machine: the part of the Hugging Face hub's HTTP interface that writing a model takes."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pytest
from huggingface_hub import constants

TOKEN = "hf_" + "a" * 34


@dataclass
class FakeHub:
    """Repositories in memory: name to branch to path to content."""

    address: str = ""
    repositories: dict[str, dict[str, dict[str, bytes]]] = field(default_factory=dict)
    is_private: dict[str, bool] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)
    """Of commits."""

    def download(self, repository: str, revision: str, folder: Path) -> Path:
        """Write a revision's files into a folder."""
        for path, content in self.repositories[repository][revision].items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        return folder

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        """Give status and JSON of a request."""
        parts = [unquote(part) for part in path.strip("/").split("/")][1:]
        if parts == ["repos", "create"]:
            return self._create(json.loads(body))
        if parts == ["validate-yaml"]:
            return 200, {"errors": [], "warnings": []}
        name, verb, rest = "/".join(parts[1:3]), parts[3] if len(parts) > 3 else "", parts[4:]
        if name not in self.repositories:
            return 404, {"error": "Repository not found"}
        branches = self.repositories[name]
        if verb == "refs":
            found = [{"name": one, "ref": f"refs/heads/{one}", "targetCommit": "0" * 40} for one in branches]
            return 200, {"branches": found, "tags": [], "converts": []}
        if verb == "branch" and method == "POST":
            if rest[0] in branches:
                return 409, {"error": "Reference already exists"}
            branches[rest[0]] = dict(branches["main"])
            return 200, {}
        if verb == "tree":
            files = branches[rest[0]].items()
            return 200, [{"type": "file", "path": one, "size": len(data), "oid": "0" * 40} for one, data in files]
        if verb == "preupload":
            files = json.loads(body)["files"]
            return 200, {
                "files": [{"path": one["path"], "uploadMode": "regular", "shouldIgnore": False} for one in files]
            }
        if verb == "commit":
            return self._commit(name, branches[rest[0]], body)
        return 404, {"error": path}

    def _create(self, wanted: dict[str, Any]) -> tuple[int, Any]:
        name = f"{wanted['organization']}/{wanted['name']}"
        answer = {"url": f"{self.address}/{name}", "name": name, "id": name}
        if name.startswith("other/"):
            return 403, {"error": 'You don\'t have the rights to create a model under the namespace "other"'}
        if name in self.repositories:
            return 409, {**answer, "error": "You already created this model repo"}
        self.repositories[name] = {"main": {".gitattributes": b"*.safetensors filter=lfs"}}
        self.is_private[name] = wanted.get("visibility") == "private" or bool(wanted.get("private"))
        return 200, answer

    def _commit(self, name: str, files: dict[str, bytes], body: bytes) -> tuple[int, Any]:
        for line in body.decode().splitlines():
            entry = json.loads(line)
            value = entry["value"]
            if entry["key"] == "header":
                self.messages.append(value["summary"])
            elif entry["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif entry["key"] == "deletedFile":
                del files[value["path"]]
            else:
                return 400, {"error": entry["key"]}
        number = f"{len(self.messages):040d}"
        return 200, {"success": True, "commitOid": number, "commitUrl": f"{self.address}/{name}/commit/{number}"}


@contextmanager
def running_hub(patch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """Serve a hub to which huggingface_hub speaks while this runs."""
    hub = FakeHub()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self._answer("POST")

        def do_GET(self) -> None:
            self._answer("GET")

        def log_message(self, *_: Any) -> None:
            pass

        def _answer(self, method: str) -> None:
            if self.headers.get("Transfer-Encoding") == "chunked":
                parts = []
                while size := int(self.rfile.readline(), 16):
                    parts.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                body = b"".join(parts)
            else:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, answer = hub.answer(method, urlparse(self.path).path, body)
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                status, answer = 401, {"error": "Invalid username or password."}
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        hub.address = f"http://127.0.0.1:{server.server_port}"
        patch.setattr(constants, "ENDPOINT", hub.address)
        patch.setattr(constants, "HF_HUB_OFFLINE", False)
        patch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        patch.setenv("HF_HUB_DISABLE_XET", "1")
        patch.setenv("HF_TOKEN", TOKEN)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield hub
        finally:
            server.shutdown()
            thread.join()
