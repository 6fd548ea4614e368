"""Adversarial SQuAD, made up: in the form of Jia and Liang's files."""

from __future__ import annotations

import json
from pathlib import Path


def adversarial_squad(data: Path, path: Path) -> Path:
    """Write the made-up questions, the first of each paragraph with two versions that have a sentence more."""
    content = json.loads((data / "squad" / "dev-v1.1.json").read_text())
    for paragraph in [*content["data"][0]["paragraphs"]]:
        for question in paragraph["qas"]:
            question["id"] = question["id"].replace("-", "")
        first = paragraph["qas"][0]
        for number in (0, 1):
            version = first | {"id": f"{first['id']}-high-conf-turk{number}"}
            context = f"{paragraph['context']} Jeff Dean went to Chicago in 1999."
            content["data"][0]["paragraphs"].append({"context": context, "qas": [version]})
    path.write_text(json.dumps(content))
    return path
