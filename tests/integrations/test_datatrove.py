"""datatrove's executors build the corpora that ``corpus build`` builds, and go on after a death."""

from __future__ import annotations

import json
import os
import random
import runpy
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from datatrove.executor import LocalPipelineExecutor, SlurmPipelineExecutor
from datatrove.pipeline.filters import LambdaFilter
from datatrove.pipeline.readers import JsonlReader
from datatrove.utils.word_tokenizers import WordTokenizer

from trueneg.corpus.annotations import Annotations
from trueneg.corpus.build import build_corpus
from trueneg.corpus.store import Corpus, CorpusInfo
from trueneg.corpus.tokenizer_training import train_tokenizer
from trueneg.errors import BusyError, CorpusError
from trueneg.files.lock import locked
from trueneg.integrations.datatrove import AnnotateCorpus, Finish, TokenizeDocuments, TokenizeFiles

SHARD_TOKENS = 300


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    for number in range(5):
        with (folder / f"{number}.jsonl").open("w") as file:
            for row in range(12):
                text = " ".join(f"word{(number * 7 + row * 3 + place) % 29}" for place in range(20 + row))
                file.write(json.dumps({"text": text, "quality": row % 3}) + "\n")
    return folder


@pytest.fixture(scope="module")
def tokenizer(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer") / "tok"
    train_tokenizer([str(texts)], folder, vocab_size=60)
    return folder


@pytest.fixture(scope="module")
def whole(texts: Path, tokenizer: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "corpus"
    build_corpus([str(texts)], tokenizer, folder, shard_tokens=SHARD_TOKENS, valid=0.2)
    return folder


def options() -> dict[str, Any]:
    return {"shard_tokens": SHARD_TOKENS, "valid": 0.2}


def local(pipeline: list[Any], logs: Path, tasks: int = 1, **given: Any) -> LocalPipelineExecutor:
    return LocalPipelineExecutor(pipeline, tasks=tasks, logging_dir=str(logs), **given)


@pytest.mark.parametrize(("tasks", "workers"), [(1, 1), (3, 1), (7, 2)])
def test_files_give_the_corpus_of_one_build(
    texts: Path, tokenizer: Path, whole: Path, tmp_path: Path, tasks: int, workers: int
) -> None:
    out = tmp_path / "corpus"
    block = TokenizeFiles([str(texts)], tokenizer, out, **options())
    build = local([block], tmp_path / "logs", tasks, workers=workers)
    local([Finish(out)], tmp_path / "finish", depends=build, workers=1).run()
    assert contents(out) == contents(whole)


def test_an_executor_that_dies_goes_on(texts: Path, tokenizer: Path, whole: Path, tmp_path: Path) -> None:
    out, broken = tmp_path / "corpus", texts / "3.jsonl"
    good, stamp = broken.read_text(), broken.stat()
    lines = good.splitlines(keepends=True)
    broken.write_text("".join(lines[:6]) + "{no JSON" + "x" * (len("".join(lines[6:])) - 9) + "\n")
    os.utime(broken, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))  # so that it is a fault of the disk, not other text
    try:
        with pytest.raises(CorpusError, match=r"3\.jsonl:7: not JSON"):
            local([TokenizeFiles([str(texts)], tokenizer, out, **options())], tmp_path / "logs", 2, workers=1).run()
        made = {path.name: path.stat().st_mtime_ns for path in (out / "parts").glob("*.piece")}
        assert sorted(made) == [f"0000000{place}.piece" for place in (0, 1, 2, 4)]
        with pytest.raises(CorpusError, match=r"1 of 5 pieces are missing .*3\.jsonl"):
            local([Finish(out)], tmp_path / "finish", workers=1).run()
    finally:
        broken.write_text(good)
        os.utime(broken, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    build = local([TokenizeFiles([str(texts)], tokenizer, out, **options())], tmp_path / "logs", 2, workers=1)
    build.run()
    assert made.items() <= {path.name: path.stat().st_mtime_ns for path in (out / "parts").glob("*.piece")}.items()
    local([Finish(out)], tmp_path / "finish", workers=1).run()
    assert contents(out) == contents(whole)


def test_two_executors_on_one_folder(texts: Path, tokenizer: Path, tmp_path: Path) -> None:
    out = tmp_path / "corpus"
    local([TokenizeFiles([str(texts)], tokenizer, out)], tmp_path / "logs", 5, local_tasks=1, workers=1).run()
    other = local([TokenizeFiles([str(texts)], tokenizer, out)], tmp_path / "other", 5, workers=1)
    held = locked(out / "parts", "the first executor", name=".lock-00000001")
    with held, pytest.raises(BusyError, match="the first executor"):
        other.run()
    with pytest.raises(CorpusError, match=r"made otherwise .*seed: 0 -> 1"):
        local([TokenizeFiles([str(texts)], tokenizer, out, seed=1)], tmp_path / "third", workers=1).run()


@pytest.mark.parametrize("tasks", [1, 3])
def test_documents_of_a_pipeline(texts: Path, tokenizer: Path, whole: Path, tmp_path: Path, tasks: int) -> None:
    """The same text, read by datatrove's reader: the same corpus, but for the names of its sources."""
    out = tmp_path / "corpus"
    pipeline = [JsonlReader(str(texts)), TokenizeDocuments(tokenizer, out, **options())]
    build = local(pipeline, tmp_path / "logs", tasks, workers=1)
    local([Finish(out)], tmp_path / "finish", depends=build, workers=1).run()
    assert CorpusInfo.read(out).fingerprint == CorpusInfo.read(whole).fingerprint
    assert [Path(source.name).name for source in CorpusInfo.read(out).sources] == [f"{n}.jsonl" for n in range(5)]
    Corpus.open(out, "valid").verify()


def test_what_a_filter_drops_is_not_in_the_corpus(texts: Path, tokenizer: Path, tmp_path: Path) -> None:
    found = []
    for tasks in (1, 2):
        out = tmp_path / f"corpus{tasks}"
        keep = LambdaFilter(lambda document: document.metadata["quality"] > 0)
        pipeline = [JsonlReader(str(texts)), keep, TokenizeDocuments(tokenizer, out, shard_tokens=SHARD_TOKENS)]
        build = local(pipeline, tmp_path / f"logs{tasks}", tasks, workers=1)
        local([Finish(out)], tmp_path / f"finish{tasks}", depends=build, workers=1).run()
        found.append(contents(out))
    assert found[0] == found[1]
    assert CorpusInfo.read(tmp_path / "corpus1").num_documents == 5 * 8


def test_a_task_that_has_not_ended_is_named(texts: Path, tokenizer: Path, tmp_path: Path) -> None:
    out = tmp_path / "corpus"

    def pipeline(**given: Any) -> list[Any]:
        return [JsonlReader(str(texts)), TokenizeDocuments(tokenizer, out, **given)]

    local(pipeline(), tmp_path / "logs", 3, local_tasks=2, workers=1).run()
    with pytest.raises(CorpusError, match=r"1 of 3 pieces are missing .*task 2 of 3"):
        local([Finish(out)], tmp_path / "finish", workers=1).run()
    with pytest.raises(CorpusError, match=r"made otherwise .*pieces"):  # another number of tasks
        local(pipeline(), tmp_path / "others", 2, workers=1).run()
    with pytest.raises(CorpusError, match=r"a fraction in \(0, 1\)"):
        local(pipeline(valid="held-out.txt"), tmp_path / "valid", 3, workers=1).run()
    local(pipeline(), tmp_path / "logs", 3, workers=1).run()
    local([Finish(out)], tmp_path / "finish", workers=1).run()
    assert CorpusInfo.read(out).num_documents == 60


def test_annotations(whole: Path, tmp_path: Path) -> None:
    wordnet = Path(__file__).parent.parent / "data" / "wordnet"
    given: dict[str, Any] = {"wordnet": str(wordnet), "device": "cpu"}
    for tasks in (1, 3):
        out = tmp_path / f"notes{tasks}"
        notes = local([AnnotateCorpus(whole, "lexical", out, **given)], tmp_path / f"l{tasks}", tasks, workers=1)
        local([Finish(out)], tmp_path / f"f{tasks}", depends=notes, workers=1).run()
    assert contents(tmp_path / "notes1") == contents(tmp_path / "notes3")
    assert Annotations.open(tmp_path / "notes3", Corpus.open(whole)).info.share == 1


class Spaces(WordTokenizer):
    """Words as white space has them, for spaCy, which is in no other test."""

    def word_tokenize(self, text: str) -> list[str]:
        return text.split()

    def sent_tokenize(self, text: str) -> list[str]:
        return [text]

    def span_tokenize(self, text: str) -> list[tuple[int, int]]:
        return [(0, len(text))]


def test_the_example_filters_and_removes_near_duplicates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choose = random.Random(0)
    words = ["".join(choose.choices("abcdefgh", k=5)) for _ in range(100)]  # digits are all alike to MinHash
    texts = [" ".join(["the and of", *choose.choices(words, k=80)]) for _ in range(30)]
    (tmp_path / "texts").mkdir()
    for number in range(3):
        those = texts[number * 10 : number * 10 + 10]
        rows = [*those, "too short", texts[0] + " again"]  # near-duplicates of the very first
        lines = (json.dumps({"text": text}) + "\n" for text in rows)
        (tmp_path / "texts" / f"{number}.jsonl").write_text("".join(lines))
    tokenizer = tmp_path / "tok"
    train_tokenizer([str(tmp_path / "texts")], tokenizer, vocab_size=100)
    for module in ("datatrove.pipeline.dedup.minhash", "datatrove.utils.word_tokenizers"):
        monkeypatch.setattr(f"{module}.load_word_tokenizer", lambda language: Spaces())
    example = Path(__file__).parents[2] / "examples" / "large_corpus.py"
    given = [tmp_path / "texts", tokenizer, tmp_path / "corpus", "--work", tmp_path / "work", "--tasks", 3]
    monkeypatch.setattr(sys, "argv", [str(example), *map(str, given), "--valid", "0.2"])
    runpy.run_path(str(example), run_name="__main__")
    info = CorpusInfo.read(tmp_path / "corpus")
    assert info.num_documents == 30
    runpy.run_path(str(example), run_name="__main__")  # nothing is left to do
    assert CorpusInfo.read(tmp_path / "corpus") == info


SBATCH = """#!{python}
import os, re, subprocess, sys
script = sys.argv[-1]
text = open(script).read()
array = re.search(r"--array=0-(\\d+)", text)
for task in range(int(array[1]) + 1 if array else 1):
    subprocess.run(["bash", script], check=True, env=dict(
        os.environ, SLURM_ARRAY_TASK_ID=str(task), SLURM_NODELIST="node", PATH=os.environ["PATH"]))
print("Submitted batch job 17")
"""


def test_slurm(texts: Path, tokenizer: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its scripts and pickles are real; ``sbatch`` is a stand-in that runs each task of the array in turn."""
    programs = tmp_path / "bin"
    programs.mkdir()
    scripts = {
        "sbatch": SBATCH.format(python=sys.executable),
        "srun": '#!/bin/bash\nwhile [[ $1 == -* ]]; do [[ $1 == -n ]] && shift; shift; done\nexec "$@"\n',
        "scontrol": "#!/bin/bash\necho node\n",
    }
    for name, script in scripts.items():
        (programs / name).write_text(script)
        (programs / name).chmod(stat.S_IRWXU)
    places = f"{programs}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setenv("PATH", places)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    out = tmp_path / "corpus"
    given: dict[str, Any] = {"time": "1:00:00", "partition": "cpu"}
    build = SlurmPipelineExecutor(
        [TokenizeFiles([str(texts)], str(tokenizer), out, **options())],
        tasks=2,
        logging_dir=str(tmp_path / "l"),
        **given,
    )
    SlurmPipelineExecutor([Finish(out)], tasks=1, logging_dir=str(tmp_path / "f"), depends=build, **given).run()
    assert contents(out) == contents(whole)
