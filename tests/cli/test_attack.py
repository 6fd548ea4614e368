"""``attack`` as a user goes through it: a search, a set that is kept, published adversaries, questions, mistakes."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest
from command_line import WORDNET, World, fails, works

from trueneg.attacks.attack_set import load_attack_set
from trueneg.attacks.registry import make_attack
from trueneg.attacks.runner import evaluate_attack, run_attack, run_attacks
from trueneg.attacks.setup import AttackConfig
from trueneg.errors import BusyError, TaskError
from trueneg.runs.finetuned_models import open_finetuned

NEIGHBOURS = {
    "happy": ["glad", "small", "sad"],
    "small": ["little", "happy"],
    "film": ["movie", "picture"],
    "number": ["town", "beast"],
}
CONTEXT = "The large beast will stay near the town . In 1998 we see 25 films about the city . They rest there ."

ASKED = (
    ("What will stay near the town ?", "large beast"),
    ("How many films did we see about the city in 1998 ?", "25"),
)


def write_reviews(folder: Path, more: str = "", **splits: range) -> None:
    folder.mkdir()
    for split, numbers in splits.items():
        rows = [f"the {('happy', 'small')[n % 2]} film number {more}{n},{n % 2}" for n in numbers]
        (folder / f"{split}.csv").write_text("\n".join(["text,label", *rows]) + "\n")


@pytest.fixture(scope="module")
def neighbours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("neighbours") / "near.json"
    path.write_text(json.dumps(NEIGHBOURS))
    return path


@pytest.fixture(scope="module")
def texts(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier that goes by one word, of two seeds."""
    out = tmp_path_factory.mktemp("texts")
    data = out / "reviews"
    write_reviews(data, train=range(80), dev=range(80, 110), test=range(110, 130))
    works(
        *("finetune", world.run, "--task", "classification", "--data", data, "--seeds", 2, "--out", out / "results"),
        *("--length", 16, "--epochs", 30, "--set", "learning_rate=3e-3", "--set", "train.device=cpu"),
    )
    return out / "results" / "reviews"


@pytest.fixture(scope="module")
def questions(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reader of two paragraphs, hardly trained."""
    folder = tmp_path_factory.mktemp("questions")
    asked = [
        {"id": f"q{number}", "question": question, "answers": [{"text": text, "answer_start": CONTEXT.index(text)}]}
        for number, (question, text) in enumerate(ASKED)
    ]
    paragraphs = [
        {"context": CONTEXT + more, "qas": [{**q, "id": q["id"] + more} for q in asked]} for more in ("", " .")
    ]
    for split in ("train", "dev"):
        data = {"data": [{"title": "beasts", "paragraphs": paragraphs}]}
        (folder / f"{split}-v1.1.json").write_text(json.dumps(data))
    works(
        *("finetune", world.run, "--task", "squad", "--data", folder, "--seeds", 2, "--out", folder / "results"),
        *("--length", 32, "--set", "train.steps=2", "--set", "task.doc_stride=8", "--set", "train.device=cpu"),
    )
    return folder / "results" / "squad"


def search(neighbours: Path) -> list[object]:
    return ["--attack", "textfooler", "--neighbours", neighbours, "--encoder", "none", "--set", "min_cosine=0.4"]


def test_a_search_for_each_model_and_what_is_left_for_compare(texts: Path, neighbours: Path, tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    said = works("attack", texts, *search(neighbours), "--max-examples", 30, "--out", out, "--json").data
    assert [Path(one["model"]).name for one in said["attacked"]] == ["seed-1", "seed-2"]
    first = said["attacked"][0]
    (drop,) = first["drops"]
    assert first["num_examples"] == 30 and first["counts"]["queries"] > 30
    assert drop["before"]["estimate"] == 1 > drop["after"]["estimate"], "one word decides, and it has a neighbour"
    assert drop["drop"]["low"] > 0
    assert first["metrics"]["accuracy_under_attack"] == drop["after"]["estimate"]
    assert first["metrics"]["attack_success_rate"] == pytest.approx(1 - drop["after"]["estimate"])  # all were right
    assert (first["attack"]["profile"], first["attack"]["options"]["min_cosine"]) == ("textattack", 0.4)
    assert json.loads(out.read_text()) == said
    kept = json.loads((texts / "seed-1" / "attack-textfooler-textattack.json").read_text())
    assert kept["metrics"] == first["metrics"] and kept["config"]["attack"] == first["attack"]
    table = works("report", texts.parent, "--format", "csv").out
    assert "attack-textfooler-textattack" in table and "accuracy_before" in table
    shown = works("attack", texts / "seed-1", *search(neighbours), "--max-examples", 30)
    assert "100.0" in shown.out and "drop" in shown.out


def test_a_set_is_the_same_bytes_again_and_asks_other_models(texts: Path, neighbours: Path, tmp_path: Path) -> None:
    sets = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for path in sets:
        works("attack", texts / "seed-1", *search(neighbours), "--max-examples", 20, "--save", path, "--quiet")
    assert sets[0].read_bytes() == sets[1].read_bytes()
    found = [json.loads(line) for line in sets[0].read_text().splitlines()[1:]]
    assert len(found) == 20 and any(one["outcome"] == "succeeded" for one in found)
    own, other = works("attack", texts, "--load", sets[0], "--json").data["attacked"]
    assert own["counts"] == other["counts"], "of the search"
    names = [Path(one["result"]).stem for one in (own, other)]
    assert names == ["attack-textfooler-textattack", f"attack-textfooler-textattack-of-{own['attack']['victim']}"]
    share = sum(one["outcome"] == "failed" for one in found) / 20
    assert own["metrics"]["accuracy_under_attack"] == pytest.approx(share), "its own victim answers as in the search"
    assert "wrote" in works("attack", texts / "seed-2", "--load", sets[0], "--save", tmp_path / "c.jsonl").err
    assert (tmp_path / "c.jsonl").read_bytes() == sets[0].read_bytes()
    elsewhere = ("--results", tmp_path / "elsewhere")
    (one,) = works("attack", texts / "seed-2", "--load", sets[0], *elsewhere, "--json").data["attacked"]
    assert Path(one["result"]).parent == tmp_path / "elsewhere" / texts.name / "seed-2"
    assert one["metrics"] == other["metrics"]


def test_of_another_models_set_those_that_fooled_that_model_are_evaluated(
    texts: Path, neighbours: Path, tmp_path: Path
) -> None:
    path = tmp_path / "set.jsonl"
    works("attack", texts / "seed-1", *search(neighbours), "--max-examples", 20, "--save", path, "--quiet")
    found = load_attack_set(path)
    failed = [replace(one, outcome="failed", adversarial=one.original) for one in found.examples]
    mixed = replace(found, examples=[*failed[:7], *found.examples[7:]])
    num = sum(one.outcome == "succeeded" for one in mixed.examples)
    other = evaluate_attack(texts / "seed-2", mixed).result
    assert 0 < num <= 13 and (other.num_examples, other.counts["left_out"]) == (num, 20 - num)
    own = evaluate_attack(texts / "seed-1", mixed).result
    assert own.num_examples == 20 and "left_out" not in own.counts
    with pytest.raises(TaskError, match="fooled its victim with none of 20 examples"):
        evaluate_attack(texts / "seed-2", replace(found, examples=failed))


def test_published_adversaries_are_asked_of_a_model(texts: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(
        "ground_truth_output,num_queries,original_text,perturbed_text,result_type\n"
        '0,5,the [[happy]] film number 4,the [[small]] film number 4,"Successful"\n'
        '1,5,the small film number 5,the happy film number 5,"Skipped"\n'
        '1,5,the small [[film]] number 7,the small [[movie]] number 7,"Successful"\n'
    )
    (one,) = works("attack", texts / "seed-1", "--load", log, "--json").data["attacked"]
    assert one["counts"]["left_out"] == 1
    assert one["attack"] == {"name": "published", "file": "log.csv", "left_out": 1, "task": "reviews", "split": "log"}
    assert one["num_examples"] == 2
    assert (one["metrics"]["accuracy_before"], one["metrics"]["accuracy_under_attack"]) == (1.0, 0.5)
    turned = works("attack", texts / "seed-1", "--load", log, "--label-names", "1,0", "--json").data["attacked"][0]
    assert turned["metrics"]["accuracy_before"] == 0
    assert (texts / "seed-1" / "attack-log.json").is_file()
    log.with_suffix(".tsv").write_text("first\toriginal\tadversarial\tlabel\nthe film\tthe film\tthe movie\t0\n")
    assert "log.tsv:2: a pair of texts" in fails("attack", texts / "seed-1", "--load", log.with_suffix(".tsv"))


def test_adversarial_squad_is_read_for_a_model_of_squad(questions: Path, tmp_path: Path) -> None:
    answer = {"text": "25", "answer_start": CONTEXT.index("25")}
    paragraphs = [
        {"context": CONTEXT + more, "qas": [{"id": key, "question": "How many films ?", "answers": [answer]}]}
        for key, more in (("aa", ""), ("aa-turk0", " They see 9 towns ."), ("aa-turk1", " They see 8 ."), ("bb", " ."))
    ]
    path = tmp_path / "addsent.json"
    path.write_text(json.dumps({"data": [{"title": "beasts", "paragraphs": paragraphs}]}))
    said = works("attack", questions, "--load", path, "--json").data["attacked"]
    assert [one["num_examples"] for one in said] == [2, 2], "questions, not versions"
    assert said[0]["counts"]["changed"] == 2 and said[0]["attack"]["file"] == "addsent.json"
    assert (questions / "seed-2" / "attack-addsent.json").is_file()
    assert "no adversarial SQuAD" in fails("attack", questions, "--load", questions.parents[1] / "dev-v1.1.json")


def test_an_attack_is_one_file_outside_the_package_and_the_model_is_loaded_once(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plugin_shouting.py").write_text(
        dedent("""
            from dataclasses import dataclass, replace
            from trueneg.attacks.base import AdversarialExample, Attack

            TRUENEG = {"attacks": {"shout": "plugin_shouting:make_shout"}}

            @dataclass(frozen=True)
            class Options:
                mark: str = "!"

            def make_shout(setup):
                \"\"\"Ends texts with a mark that the victim is not moved by.\"\"\"
                options = setup.options({"loud": Options(), "doubtful": Options("?")})

                def run(victim, examples, *, progress):
                    victim.probabilities(examples)
                    changed = (replace(example, text=example.text + options.mark) for example in examples)
                    return [AdversarialExample(*pair, "failed", 1) for pair in zip(examples, changed)]

                return Attack(run, options, queries_victim=True)
        """)
    )
    monkeypatch.setattr("trueneg.registry._PLUGINS", {})
    monkeypatch.syspath_prepend(tmp_path)
    opened: list[Path] = []

    def open_counted(folder: Path, settings: list[str]) -> object:
        opened.append(folder)
        return open_finetuned(folder, settings)

    monkeypatch.setattr("trueneg.attacks.runner.open_finetuned", open_counted)
    given = ["--plugin", "plugin_shouting", "attack", texts, "--attack", "shout"]
    said = works(*given, "--set", "mark=?!", "--max-examples", 4, "--json").data["attacked"]
    assert opened == [texts / "seed-1", texts / "seed-2"], "for the search and the evaluation"
    assert said[0]["attack"]["options"] == {"mark": "?!"} and said[0]["attack"]["profile"] == "loud"
    assert (said[0]["counts"]["failed"], said[0]["counts"]["queries"]) == (4, 4)
    assert "shout takes no --encoder" in fails(*given, "--encoder", "none")
    assert "Ends texts" in works("--plugin", "plugin_shouting", "list", "attacks").out


def test_the_api_attacks_all_seeds_with_one_set(texts: Path, tmp_path: Path) -> None:
    kept, told = tmp_path / "set.jsonl", []
    config = AttackConfig(name="typos", seed=5)
    first, second = run_attacks(texts, config, max_examples=6, save=kept, on_result=told.append)
    assert first.attack_set is second.attack_set and told == [first, second]
    again = run_attacks([texts / "seed-2"], load_attack_set(kept))
    assert again[0].result.metrics == second.result.metrics
    fewer = run_attacks([texts / "seed-2"], config, max_examples=5)[0].result
    assert first.result.data == second.result.data == again[0].result.data != fewer.data, "of the originals"


def test_one_set_of_questions_for_all_models(questions: Path, tmp_path: Path) -> None:
    wordnet = tmp_path / "wordnet"
    shutil.copytree(WORDNET, wordnet)
    (wordnet / "cntlist.rev").write_text("large%3:00:00:: 1 9\n")  # the hand-made one has no counts of senses
    for name, more in (("swap-synonyms", ["--profile", "textflint"]), ("add-sentence", []), ("typos", None)):
        path = tmp_path / f"{name}.jsonl"
        given = ["--attack", name, "--seed", 3, "--save", path]
        given += [] if more is None else ["--wordnet", wordnet, *more]
        said = works("attack", questions, *given, "--json").data["attacked"]
        assert len(said) == 2
        assert [drop["metric"] for drop in said[0]["drops"]] == ["exact_match", "squad_f1"]
        again = works("attack", questions, "--load", path, "--json").data["attacked"]
        assert [one["metrics"] for one in again] == [one["metrics"] for one in said]
        assert said[0]["num_examples"] == said[0]["counts"]["changed"]


def test_a_search_with_the_words_of_a_masked_model(texts: Path, world: World, tmp_path: Path) -> None:
    search = ["--attack", "masked-lm", "--masked-lm", world.run, "--max-examples", 10, "--json"]
    kept = tmp_path / "kept.jsonl"
    (one,) = works("attack", texts / "seed-1", *search, "--save", kept).data["attacked"]
    assert (one["attack"]["profile"], one["attack"]["options"]["num_candidates"]) == ("bert-attack", 48)
    assert one["attack"]["resources"] == {"masked_lm": str(world.run), "similarity": "none"}
    assert one["counts"]["queries"] > 10 * (1 + 5 + 5), "the text, each word hidden, several words proposed"
    found = [json.loads(line)["notes"]["changed"] for line in kept.read_text().splitlines()[1:]]
    assert any(found) and all(len(changed) <= 2 for changed in found), "at most two of five words"
    named = [*search, "--profile", "bae", "--set", "num_candidates=20"]
    assert "needs --encoder" in fails("attack", texts / "seed-1", *named)
    (other,) = works("attack", texts / "seed-1", *named, "--encoder", "none").data["attacked"]
    assert other["attack"]["options"]["num_candidates"] == 20
    assert other["attack"]["resources"]["tagger"] == "pattern"
    (strict,) = works("attack", texts / "seed-1", *search, "--profile", "strict", "--wordnet", WORDNET).data["attacked"]
    assert list(strict["attack"]["resources"]) == ["masked_lm", "similarity", "wordnet"]
    assert "masked-lm needs --masked-lm" in fails("attack", texts, "--attack", "masked-lm")


def test_one_attack_at_a_time_is_made_on_a_model(texts: Path, neighbours: Path) -> None:
    model, refused = texts / "seed-1", []
    made, other = (
        make_attack(AttackConfig(name="textfooler", profile=profile, neighbours=str(neighbours), encoder="none"))
        for profile in ("jin2019", "textattack")
    )

    def meanwhile(done: int, of: int) -> None:
        if not refused:
            with pytest.raises(BusyError, match=f"'{model}': process .* .attack-textfooler-jin2019, since") as caught:
                run_attack(model, made, max_examples=2)
            refused.append(caught.value)
            run_attack(model, other, max_examples=2)

    run_attack(model, made, max_examples=2, progress=meanwhile)
    assert refused


def test_what_was_attacked_is_said_and_replaced_only_with_a_warning(texts: Path, tmp_path: Path) -> None:
    model = tmp_path / "reviews" / "seed-1"
    shutil.copytree(texts / "seed-1", model, ignore=shutil.ignore_patterns("attack-*"))
    given = ["attack", model, "--attack", "typos", "--json"]
    first = works(*given, "--split", "test")
    (one,) = first.data["attacked"]
    assert (one["attack"]["task"], one["attack"]["split"]) == ("reviews", "test")
    assert json.loads(Path(one["result"]).read_text())["config"]["attack"] == one["attack"]
    assert "replaces" not in first.err + works(*given, "--split", "test").err
    assert "replaces the result of another attack (seed, split)" in works(*given, "--split", "dev", "--seed", 3).err


def test_changes_that_the_model_does_not_read_are_counted_and_told(texts: Path, tmp_path: Path) -> None:
    data = tmp_path / "reviews"
    write_reviews(data, more="film " * 20, train=range(4), dev=range(30))
    table = tmp_path / "table.tsv"
    rows = [
        ("the happy film" + " film" * 20 + end, start + " film" * 20 + changed)
        for start, end, changed in [("the happy film", " happy", " small"), ("the small film", "", ""), ("the", "", "")]
    ]
    table.write_text("original\tadversarial\tlabel\n" + "".join(f"{old}\t{new}\t0\n" for old, new in rows))
    said = works("attack", texts / "seed-1", "--load", table, "--data", data, "--json")
    (one,) = said.data["attacked"]
    assert one["counts"] == {"changed": 3, "truncated": 3, "truncated_away": 1}
    assert "1 of 3 were changed in nothing that the model reads (at most 16 tokens)" in said.err
    kept = json.loads(Path(one["result"]).read_text())
    assert kept["counts"] == one["counts"]
    assert not works("attack", texts / "seed-1", "--load", table, "--quiet", "--json").err


def test_models_of_two_tasks_are_asked_about_their_own_examples(texts: Path, tmp_path: Path) -> None:
    other = tmp_path / "others" / "seed-1"
    shutil.copytree(texts / "seed-1", other)
    write_reviews(tmp_path / "data", train=range(8), dev=range(12))
    (tmp_path / "data").rename(tmp_path / "others-data")
    config = json.loads((other / "config.json").read_text())
    config["task"]["data"] = str(tmp_path / "others-data")
    (other / "config.json").write_text(json.dumps(config))
    both = ["attack", texts / "seed-1", other]
    first, second = works(*both, "--attack", "typos", "--json").data["attacked"]
    attacked = {one["attack"]["task"]: one["num_examples"] for one in (first, second)}
    assert attacked == {"reviews": 30, "others-data": 12}
    assert "2 tasks: name one" in fails(*both, "--attack", "typos", "--save", tmp_path / "s.jsonl")
    works(*both[:2], "--attack", "typos", "--save", tmp_path / "s.jsonl")
    said = works("attack", other, "--load", tmp_path / "s.jsonl", "--json")
    assert "the examples are of reviews, the model of others-data" in said.err
    (one,) = said.data["attacked"]
    assert Path(one["result"]).name == "attack-typos-default-on-reviews.json"


def test_data_of_one_name_are_told_apart_and_a_file_that_was_not_seen_is_attacked_whole(
    texts: Path, tmp_path: Path
) -> None:
    other = tmp_path / "results" / "reviews" / "seed-1"
    shutil.copytree(texts / "seed-1", other)
    (tmp_path / "more").mkdir()
    write_reviews(tmp_path / "more" / "reviews", "again ", train=range(8), dev=range(12))
    config = json.loads((other / "config.json").read_text())
    config["task"]["data"] = str(tmp_path / "more" / "reviews")
    (other / "config.json").write_text(json.dumps(config))
    attacked = works("attack", texts / "seed-1", other, "--attack", "typos", "--json").data["attacked"]
    assert [(one["attack"]["task"], one["num_examples"]) for one in attacked] == [("reviews", 30), ("reviews", 12)]
    write_reviews(tmp_path / "files", unseen=range(40))
    (one,) = works(
        *("attack", texts / "seed-1", "--attack", "typos", "--data", tmp_path / "files" / "unseen.csv"), "--json"
    ).data["attacked"]
    assert one["num_examples"] == 40


def test_a_set_is_kept_whatever_comes_after_and_one_example_has_no_interval(
    texts: Path, neighbours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "one.jsonl"
    given = ["attack", texts / "seed-1", *search(neighbours), "--max-examples", 1, "--save", kept]
    said = works(*given, "--json").data["attacked"][0]
    assert said["drops"][0]["before"] == {"estimate": 1.0, "low": None, "high": None, "num": 1}
    assert " 100.0 " in works(*given).out
    kept.unlink()

    def broken(*_: object, **__: object) -> None:
        raise TaskError("the disk is full")

    monkeypatch.setattr("trueneg.attacks.runner.predict_split", broken)
    assert "the disk is full" in fails(*given)
    assert kept.is_file()


def test_amounts_are_refused_before_anything_is_done(world: World, tmp_path: Path) -> None:
    data = tmp_path / "scores"
    data.mkdir()
    for split in ("train", "dev"):
        rows = [f"the happy film {n},{n}.5" for n in range(8)]
        (data / f"{split}.csv").write_text("\n".join(["text,score", *rows]) + "\n")
    works(
        *("finetune", world.run, "--task", "regression", "--data", data, "--seeds", 1, "--out", tmp_path / "results"),
        *("--length", 16, "--set", "train.steps=1", "--set", "train.device=cpu", "--label-column", "score"),
    )
    model, kept = tmp_path / "results" / "scores", tmp_path / "set.jsonl"
    assert "scores is a regression task" in fails("attack", model, "--attack", "typos", "--save", kept)
    assert not kept.exists()
    head = {"schema": 1, "attack": {"name": "typos", "profile": "default"}, "task": "x", "split": "dev", "labels": []}
    text = {"key": "0", "text": "the film", "second": None, "label": 1.5, "group": None}
    entry = {"outcome": "changed", "num_queries": 0, "original": text, "adversarial": {"text": "a film"}, "notes": {}}
    kept.write_text(f"{json.dumps(head)}\n{json.dumps(entry)}\n")
    assert "regression task" in fails("attack", model, "--load", kept)


def test_the_device_of_encoders_may_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(models: list[str], attack: AttackConfig, **_: object) -> None:
        raise TaskError(f"encoders on '{attack.device}'")

    monkeypatch.setattr("trueneg.attacks.runner.run_attacks", told)
    asked = ("attack", "x", "--attack", "masked-lm", "--masked-lm", "y")
    assert "encoders on 'cpu'" in fails(*asked, "--device", "cpu")
    assert "encoders on ''" in fails(*asked)
    assert "--device must be cpu, cuda, cuda:N, xpu, xpu:N or mps, got tpux" in fails(*asked, "--device", "tpux")


def test_an_option_that_would_count_for_nothing_is_refused(texts: Path, neighbours: Path, tmp_path: Path) -> None:
    kept = tmp_path / "typos.jsonl"
    works("attack", texts / "seed-1", "--attack", "typos", "--save", kept, "--quiet")
    for option, value in (
        ("--max-examples", 500), ("--profile", "default"), ("--set", "share=0.1"), ("--seed", 0), ("--split", "dev"),
        ("--neighbours", neighbours), ("--tagger", "pattern"), ("--device", "cpu"),
    ):  # fmt: skip
        assert f"{option} does nothing beside --load" in fails("attack", texts, "--load", kept, option, value)
    typos = ("attack", texts, "--attack", "typos")
    assert "--label-names does nothing beside --attack" in fails(*typos, "--label-names", "a,b")
    assert "typos takes no --neighbours" in fails(*typos, "--neighbours", neighbours)
    assert "typos takes no --encoder" in fails(*typos, "--encoder", "none")
    assert "textfooler takes no --masked-lm" in fails("attack", texts, *search(neighbours), "--masked-lm", "somewhere")


def test_invalid_distractors_are_told(questions: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.jsonl"
    works("attack", questions / "seed-1", "--attack", "typos", "--save", kept, "--quiet")
    head, first, *rest = kept.read_text().splitlines()
    noted = json.loads(first)
    noted["notes"]["is_valid"] = False
    kept.write_text("\n".join([head, json.dumps(noted), *rest]) + "\n")
    said = works("attack", questions / "seed-1", "--load", kept, "--json")
    assert said.data["attacked"][0]["counts"] == {"changed": 4, "invalid": 1}
    assert "1 of 4 are noted as invalid" in said.err


def test_what_can_go_wrong(texts: Path, questions: Path, neighbours: Path, world: World, tmp_path: Path) -> None:
    assert "did you mean 'textfooler'" in fails("attack", texts, "--attack", "textfoler")
    assert "name an --attack" in fails("attack", texts)
    assert "textfooler needs --neighbours" in fails("attack", texts, "--attack", "textfooler")
    needed = ("attack", texts, "--attack", "textfooler", "--neighbours", neighbours)
    assert "textfooler needs --encoder" in fails(*needed)
    assert "jin2019" in fails(*needed, "--encoder", "none", "--profile", "jin")
    assert "swap-synonyms is not for reviews" in fails("attack", texts, "--attack", "swap-synonyms")
    assert "textfooler is not for squad" in fails("attack", questions, *search(neighbours))
    assert "name one" in fails("attack", texts, *search(neighbours), "--save", tmp_path / "s.jsonl")
    assert "holds no fine-tuned model" in fails("attack", world.run, *search(neighbours))
    assert "no such file" in fails("attack", texts, "--load", tmp_path / "nothing.tsv")
    assert "option" in fails("attack", texts, *search(neighbours), "--set", "windw=3")
    assert "did you mean 'any'" in fails("attack", texts, *search(neighbours), "--set", "part_of_speech=ani")
    works("attack", texts / "seed-1", *search(neighbours), "--save", tmp_path / "s.jsonl", "--quiet")
    assert "the set is of" in fails("attack", questions, "--load", tmp_path / "s.jsonl")
    cut = tmp_path / "cut.jsonl"
    cut.write_text((tmp_path / "s.jsonl").read_text()[:-40])
    assert "cut.jsonl'" in fails("attack", texts, "--load", cut)
