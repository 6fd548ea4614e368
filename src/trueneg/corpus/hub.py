"""Data sets of the Hugging Face hub, streamed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from trueneg.corpus.formats import TextOptions, missing_field, text_of
from trueneg.errors import CorpusError

HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?(:[\w.-]+)?")
"""``owner/name`` or ``owner/name:configuration``."""


def read_hub(name: str, split: str, options: TextOptions, piece: int | None = None) -> Iterator[str]:
    """Stream the texts of a split, or of its file number ``piece``.

    Raises:
        CorpusError: if it cannot be reached, or lacks the text field.
    """
    place, num_read = f"data set '{name}'" + (f", file {piece}" if piece is not None else ""), 0
    try:
        rows = _hub_data_set(name).as_streaming_dataset(split=split)
        if piece is not None:
            rows = rows.shard(num_shards=rows.num_shards, index=piece)
        for num_read, record in enumerate(rows):
            if options.text_field not in record:
                raise CorpusError(missing_field(place, "column", options.text_field, record))
            yield text_of(f"{place}, row {num_read}", record[options.text_field], options)
    except CorpusError:
        raise
    except Exception as error:  # of whatever library fetches and decodes the files
        if not num_read:
            raise _unread(name, error) from error
        raise CorpusError(
            f"{place}: cannot be read beyond row {num_read} ({_reason(error)}): see that it can be reached, then run "
            f"the same again: what is finished is kept"
        ) from error


def hub_state(name: str, split: str = "train") -> tuple[str, int]:
    """The revision of a hub data set, and the number of files that a split is streamed from.

    Raises:
        CorpusError: if it cannot be reached.
    """
    try:
        found = _hub_data_set(name)
        return str(found.hash), int(found.as_streaming_dataset(split=split).num_shards)
    except Exception as error:
        raise _unread(name, error) from error


def _hub_data_set(name: str) -> Any:
    import datasets

    repository, _, configuration = name.partition(":")
    return datasets.load_dataset_builder(repository, configuration or None)


def _unread(name: str, error: Exception) -> CorpusError:
    return CorpusError(
        f"no such file or folder: '{name}', nor can it be read from the hub ({_reason(error)}): check the name "
        f"and the connection, or download it and give the folder"
    )


def _reason(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
