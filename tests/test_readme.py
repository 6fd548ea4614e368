"""Every command and every Python block of README.md and docs/ is run here, made small by the tables below."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from preloaded_command import preloaded_command

ROOT = Path(__file__).parent.parent
PAGES = [
    page
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md")))
    if page.is_file()
]

# Whole lines that are not run, each with its reason.
NOT_RUN = {
    "make setup": "this very environment; tests/test_setup.py tests its parts",
    "make check": "part of make test",
    "make test": "this is make test",
    "make demo": "run by .ci/run after the tests",
    "make bench": "minutes of measuring",
    "trueneg push runs/kept me/encoder": "writes to the hub: tests/cli/test_push.py",
    "trueneg push runs/kept me/encoder --kept": "writes to the hub: tests/cli/test_push.py",
    "trueneg push runs/kept me/encoder --step 9000": "writes to the hub: tests/cli/test_push.py",
    ". .venv/bin/activate": "tests run in an environment of their own",
}
# What a line of Python prints, written after it; a block that shows any shows all.
SHOWN = re.compile(r"# => (.*)$", re.M)
# Names on the hub, by the local model that stands in for them (a fixture's key).
HUB = {
    "google-bert/bert-base-uncased": "encoder",
    "bert-base-uncased": "encoder",
    "google/electra-base-discriminator": "encoder",
    "sentence-transformers/all-MiniLM-L6-v2": "encoder",
}
# What is too long for a test, as (pattern, smaller).
SMALLER = [
    (r"--steps[ =][\d_]+", "--steps 3"),
    (r"--set train\.steps=[\d_]+", "--set train.steps=3"),
    (r"\bsteps=[\d_]+", "steps=3"),
    (r"steps = [\d_]+", "steps = 3"),
    (r"@\d{3,}\b", "@3"),
    (r"(?<!--scale tiny )--seeds[ =]\d+", "--seeds 2 --set train.steps=3"),
    (r"(trueneg try .*) --minutes[ =]\d+", r"\1 --arms lexical"),
    (r"pretrain electra-mini(?!.*--stages)", "pretrain electra-mini --set train.batch_size=4"),
    # The hand-made WordNet that other tests put in place has no counts of senses.
    (r"--objective cline", "--objective cline --set cline.views.senses=all"),
    (r"--task triplets", "--task triplets --set senses=all"),
]
# Files a page supposes its reader to have.
FILES = {
    "my.txt": "".join(
        f"Movie {number} was a big success.\nShe was happy to stay in the large house for {number} days.\n\n"
        for number in range(300)
    ),
    **{
        f"{name}.txt": "".join(
            f"{word} {number} was a big success.\nShe was happy to stay in the house for {number} days.\n\n"
            for number in range(200)
        )
        for name, word in (("wiki", "Film"), ("books", "Movie"))
    },
    "counter-fitted.txt": "movie 1 0.2\nfilm 1 0.3\nbig 0.1 1\nlarge 0.2 1\nhappy -1 0.1\nglad -1 0.2\n",
    "reviews.csv": "text,stars\n"
    + "".join(f"The movie was a {('big', 'happy')[number % 2]} success.,{number % 2}\n" for number in range(40)),
    **{
        f"glue/MRPC/{split}.tsv": "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
        + "".join(
            f"{number % 2}\t1\t2\tThe {word} was good .\tThe {(word, 'show')[number % 2]} was good .\n"
            for number, word in enumerate(["movie", "film", "house", "day"] * 5)
        )
        for split in ("train", "dev")
    },
    **{
        f"rt-polaritydata/rt-polarity.{side}": "".join(f"a big film , happy people stay {n} days\n" for n in range(20))
        for side in ("pos", "neg")
    },
    "glue/STS-B/dev.tsv": "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
    + "".join(
        f"{number}\tg\tf\t1\t{number}\tn\tn\tThe {word} was big .\tThe {other} was big .\t{5 - number % 6}.000\n"
        for number, (word, other) in enumerate([("movie", "film"), ("house", "day"), ("success", "movie")] * 4)
    ),
}


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its code, and the line of the page where the code begins."""

    language: str
    code: str
    line: int


def fenced_blocks(markdown: str) -> list[Block]:
    """Find the fenced blocks of a page, also those indented under a list item."""
    fence = re.compile(r"^(?P<indent> *)```(?P<language>\w+)[^\n`]*\n(?P<code>.*?)^(?P=indent)```\s*$", re.S | re.M)
    return [
        Block(
            found["language"],
            textwrap.dedent(found["code"]),
            markdown.count("\n", 0, found.start("code")) + 1,
        )
        for found in fence.finditer(markdown)
    ]


# Commands of minutes that a page repeats from README, where they are run.
REPEATED = re.compile(r"trueneg try ")


def made_runnable(block: Block, models: dict[str, Path], left_out: Collection[str] = NOT_RUN) -> str:
    """Leave out the lines that are not run, put local models for hub names, and make counts small."""
    code = "".join(
        line for line in block.code.splitlines(keepends=True) if line.partition("  #")[0].strip() not in left_out
    )
    for name in sorted(HUB, key=len, reverse=True):
        code = re.sub(rf"(?<![\w/.-]){re.escape(name)}(?![\w/-])", str(models[HUB[name]]), code)
    for pattern, smaller in SMALLER:
        code = re.sub(pattern, smaller, code)
    return code


def repeated(readme: str) -> set[str]:
    """Lines of README that other pages need not run again."""
    return {line for line in readme.splitlines() if REPEATED.match(line)}


def failures(
    markdown: str,
    folder: Path,
    models: dict[str, Path],
    programs: Sequence[str] = (),
    left_out: Collection[str] = NOT_RUN,
) -> list[str]:
    """Run a page's blocks in order in ``folder``, with further ``programs`` on PATH; give the first failure."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    path = os.pathsep.join([*programs, str(Path(sys.executable).parent), os.environ["PATH"]])
    interpreters = {
        "sh": ["sh", "-eux", "-c"],
        "bash": ["bash", "-eux", "-c"],
        "python": [sys.executable, "-c"],
    }
    for block in fenced_blocks(markdown):
        if block.language not in interpreters:
            continue
        done = subprocess.run(
            [*interpreters[block.language], made_runnable(block, models, left_out)],
            cwd=folder,
            env=os.environ | {"PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )
        if done.returncode:
            return [f"line {block.line}, exit {done.returncode}: {block.code}\n{done.stdout}{done.stderr}"]
        shown = SHOWN.findall(block.code)
        if shown and done.stdout.splitlines() != shown:
            return [f"line {block.line} shows {shown}, and prints {done.stdout}"]
    return []


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Tiny local models that stand in for those on the hub."""
    import torch
    from tokenizers import BertWordPieceTokenizer
    from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

    folder = tmp_path_factory.mktemp("encoder")
    wordpiece = BertWordPieceTokenizer()
    wordpiece.train_from_iterator(FILES.values(), vocab_size=300, min_frequency=1, show_progress=False)
    wordpiece.save_model(str(folder))
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(0)
    size = BertConfig(
        vocab_size=wordpiece.get_vocab_size(),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=128,
    )
    BertForMaskedLM(size).save_pretrained(folder)
    return {"encoder": folder}


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The folder of a ``trueneg`` that has its imports done."""
    with preloaded_command(tmp_path_factory.mktemp("program")) as folder:
        yield str(folder)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_the_page_runs(page: Path, tmp_path: Path, models: dict[str, Path], program: str) -> None:
    left_out = {*NOT_RUN, *(repeated(PAGES[0].read_text(encoding="utf-8")) if page != PAGES[0] else ())}
    assert failures(page.read_text(encoding="utf-8"), tmp_path, models, [program], left_out) == []


def test_a_preloaded_command_does_as_the_installed_one(program: str, tmp_path: Path) -> None:
    def ended(folder: str, *arguments: str) -> tuple[int, str, str]:
        command = [f"{folder}/trueneg", *arguments]
        done = subprocess.run(command, cwd=tmp_path, input="[]", capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    installed = str(Path(sys.executable).parent)
    for arguments in (["list", "presets"], ["corpus", "info", "nowhere"], ["pretrain", "--stps", "3"], ["check-data"]):
        assert ended(program, *arguments) == ended(installed, *arguments)
    assert [ended(installed, *one)[0] for one in (["--version"], ["corpus", "info", "nowhere"], ["nothing"])] == [
        0,
        1,
        2,
    ]


def test_the_names_of_how_it_works_are_in_the_files_it_says() -> None:
    page = (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w/]+\.py)` \| ([^|]*) \|", page, re.M)
    assert len(rows) > 15
    for place, names in rows:
        code = (ROOT / "src" / "trueneg" / place).read_text(encoding="utf-8")
        for name in re.findall(r"`(\w+)`", names):
            assert re.search(rf"^(?:def|class) {name}\b", code, re.M), f"{place} has no {name}"


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r"\]\((?!https?:)([^)#]*)(?:#[^)]*)?\)", text):
            assert not target or (page.parent / target).exists(), f"{page.name}: {target}"
        for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", text):
            headings = re.findall(r"^#+ (.*)$", (page.parent / target if target else page).read_text("utf-8"), re.M)
            known = {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}
            assert anchor in known, f"{page.name}: {target}#{anchor}"


SAMPLE = """
# Sample

```sh
make setup   # nothing to do here
make test
echo --steps 100_000 --model bert-base-uncased \\
    my.txt > said   # continued
```

1. In a list:

   ```python
   from pathlib import Path

   assert "Movie 1 was" in Path("my.txt").read_text()
   print(1)  # => 1
   Path("steps").write_text(str(dict(steps=5000)))
   ```

```text
no-such-command
```
"""


def test_the_sample_runs_in_order_and_small(tmp_path: Path) -> None:
    assert failures(SAMPLE, tmp_path, {"encoder": Path("/models/tiny")}) == []
    assert (tmp_path / "said").read_text() == "--steps 3 --model /models/tiny my.txt\n"
    assert (tmp_path / "steps").read_text() == "{'steps': 3}"


@pytest.mark.parametrize(
    "block",
    [
        "```sh\nno-such-command\n```",
        "```bash\nfalse\ntrue\n```",
        "```python\nassert False\n```",
        "```sh\nmake tests\n```",
        "```python\nprint(2)  # => 3\n```",
    ],
)
def test_a_failing_block_is_told_with_its_line(block: str, tmp_path: Path) -> None:
    (failure,) = failures(f"{SAMPLE}\nwords\n\n{block}\n", tmp_path, {"encoder": Path("/models/tiny")})
    assert failure.startswith(f"line {SAMPLE.count(chr(10)) + 5}")


def test_hub_names_are_replaced_whole_only() -> None:
    block = Block("sh", "x bert-base-uncased my/bert-base-uncased bert-base-uncased-mine", 1)
    assert made_runnable(block, {"encoder": Path("E")}) == "x E my/bert-base-uncased bert-base-uncased-mine"


def test_every_exception_says_why() -> None:
    assert all(reason for reason in NOT_RUN.values())


def test_reproduced_tables_are_what_the_files_of_results_say() -> None:
    script = [sys.executable, str(ROOT / "scripts" / "write-results"), "--check"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run(script, env=environment, check=False).returncode == 0


@pytest.mark.parametrize("marks", [("BEGIN", "<!-- End -->"), ("<!-- Begin -->", "END"), ("END", "BEGIN"), ("BEGIN",)])
def test_results_without_their_marks_are_left_as_they_are(tmp_path: Path, marks: tuple[str, ...]) -> None:
    known = {"BEGIN": "<!-- written by scripts/write-results -->", "END": "<!-- end -->"}
    page = tmp_path / "docs" / "results.md"
    page.parent.mkdir()
    text = "\n".join([*(known.get(mark, mark) for mark in marks), "what people wrote below", ""])
    page.write_text(text)
    (tmp_path / "scripts").mkdir()
    script = shutil.copy(ROOT / "scripts" / "write-results", tmp_path / "scripts")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True)
    assert (done.returncode, page.read_text()) == (1, text)
    assert "write each mark once" in done.stderr
