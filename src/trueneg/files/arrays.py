"""Tables that are computed once: numpy arrays and their provenance, in one file with a checksum."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from trueneg.errors import TruenegError
from trueneg.files.records import parse_record
from trueneg.files.whole import whole_file

_ABOUT, _CHECKSUM = "about", "checksum"

T = TypeVar("T")


@dataclass(frozen=True)
class ArrayFile:
    """A kind of safetensors file: arrays, JSON metadata, and a checksum over both.

    Attributes:
        kind: What it holds, such as "lookup table".
        version: Version of its layout and meaning; files of another version are refused.
        error: Class of the errors raised.
        remedy: How the user gets a valid file, as an imperative.
    """

    kind: str
    version: str
    error: type[TruenegError]
    remedy: str

    def write(self, path: Path, arrays: Mapping[str, npt.NDArray[Any]], about: Mapping[str, Any]) -> None:
        """Write a file, whole or not at all; several processes may write the same one.

        Raises:
            TruenegError: of class ``error``, if it cannot be written.
        """
        from safetensors.numpy import save

        texts = {"kind": self._kind, "version": self.version, _ABOUT: json.dumps(dict(about), sort_keys=True)}
        texts[_CHECKSUM] = _checksum(arrays, texts)
        # ascontiguousarray would turn a 0-d array into a 1-d one.
        plain = {name: np.asarray(array, order="C") for name, array in arrays.items()}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(path, shared=True) as part:
                part.write_bytes(save(plain, metadata=texts))
        except OSError as failed:
            raise self.error(
                f"cannot write the {self.kind} to '{path}' ({failed.strerror or failed}): make room, or name another "
                f"place"
            ) from failed

    def read(self, path: Path, about: type[T]) -> tuple[dict[str, npt.NDArray[Any]], T]:
        """Read a file that ``write`` wrote.

        Args:
            path: The file.
            about: Type that the JSON is decoded into: see ``records.parse_record``.

        Returns:
            The arrays, and the decoded JSON.

        Raises:
            TruenegError: of class ``error``, if the file is missing, damaged, or of another kind or version.
        """
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(str(path), framework="numpy") as file:
                texts = file.metadata() or {}
                if texts.get("kind") != self._kind:
                    raise self.error(f"'{path}' holds no {self.kind}: {self.remedy}")
                if (version := texts.get("version")) != self.version:
                    raise self.error(
                        f"'{path}' holds a {self.kind} of version {version}, not {self.version}: {self.remedy}"
                    )
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
        except (OSError, SafetensorError, TypeError, AttributeError) as failed:  # the latter: a dtype numpy lacks
            raise self.error(f"cannot read the {self.kind} '{path}' ({failed}): {self.remedy}") from failed
        if texts.pop(_CHECKSUM, None) != _checksum(arrays, texts):
            raise self.damaged(path, "checksum")
        return arrays, parse_record(about, texts.get(_ABOUT, ""), f"'{path}'", self.error, self.remedy)

    def damaged(self, path: Path, fault: object) -> TruenegError:
        """The error to raise for a file with invalid content."""
        return self.error(f"the {self.kind} '{path}' is damaged ({fault}): {self.remedy}")

    @property
    def _kind(self) -> str:
        return f"trueneg {self.kind}"


def _checksum(arrays: Mapping[str, npt.NDArray[Any]], texts: Mapping[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(dict(texts), sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"\n{json.dumps(name)} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
