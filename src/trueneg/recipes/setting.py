"""What recipes share: the data, the models and the jobs that train and evaluate them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trueneg.attacks.published import read_published_squad
from trueneg.config.codec import full_name, override
from trueneg.config.finetune_options import FinetuneConfig
from trueneg.config.options import PretrainConfig
from trueneg.errors import ConfigError, unknown_name
from trueneg.recipes.estimates import PAPERS, of_steps, steps_of, training_minutes, tuning_minutes
from trueneg.recipes.places import (
    CLINE_FOLDERS,
    CONTRAST_FILES,
    CONTRAST_FOLDERS,
    SOURCES,
    files_needed,
    place_of,
)
from trueneg.recipes.plan import Argument, Command, Input, Job, Output, Plan, safe_name, with_settings
from trueneg.recipes.scales import ENCODER, MODELS, Scale
from trueneg.runs.demo import find_encoder

VECTORS = "*.50d*.txt"
"""File of GloVe's vectors (footnote 11)."""
RETRIEVED = "lexical[forms=retrieved]"
KEPT_AT = (0.0625, 0.125, 0.25, 0.5, 0.8, 1.0)
"""Shares of a run's steps at which tn-table2 evaluates it."""
KEEP = ("--set", f"train.keep_at={','.join(map(str, KEPT_AT))}")
_KEEPS_FROM = 16
"""With at least this many steps, these shares are distinct steps."""
ARMS: Mapping[str, str] = {
    "": "the baseline",
    "HC": "hard correction with the paper's table (section 3.2)",
    "HC agree": "hard correction with forms that agree with gold",
    "HC GloVe": "hard correction with the ten nearest word vectors (Table 6)",
    "HC in context": "hard correction with prototypes, which read the sentence",
    "SR": "soft regularization of tokens (Eq. 3)",
    "SR sentence": "soft regularization of sentences (section 5)",
    "soft": "the target spread over the paper's table",
    "soft in context": "the target spread over what prototypes accept",
    "soft in context 0.5": "the same with a lower threshold, which accepts more",
    "soft in context vetoed": "soft in context without names and derived words",
    "smoothing": "a tenth of the target spread over the vocabulary",
    "self": "a tenth of the target spread over what the model itself says (Self-Evolution, Zhong et al. 2023)",
    "self in context": "the same with a half of the target, over what prototypes accept",
    "CLINE": "CLINE (Eq. 7)",
    "continued": "CLINE's control: as many steps of masked language modelling alone",
    "CLINE w/o RTD": "CLINE without replaced-token detection (Table 6)",
    "CLINE w/o hard negatives": "CLINE with another row as the negative (Table 6)",
    "SMART": "fine-tuning with SMART, next to FreeLB (CLINE's Tables 2 and 5)",
}
"""Ways of pre-training that tables compare; the baseline's name is empty."""

GLUE = {
    "cola": ("CoLA", "dev", "matthews"),
    "sst2": ("SST", "dev", "accuracy"),
    "mrpc": ("MRPC", "dev", "accuracy"),
    "stsb": ("STS", "dev", "spearman"),
    "qqp": ("QQP", "dev", "accuracy"),
    "mnli": ("MNLI", "dev_matched", "accuracy"),
    "qnli": ("QNLI", "dev", "accuracy"),
    "rte": ("RTE", "dev", "accuracy"),
}
"""Task to its column in the tables, the split and the metric (Zhang et al. 2023, Table 3)."""
_ADVERSARIES, _TEXT = "adversaries.", "text."
KNOWN = ("encoder", "text", "text.MODEL", "tagger", "select", "adversaries.TASK", "pretrain.OPTION", "finetune.OPTION")
"""Settings that ``--set`` accepts."""
SELECTIONS = HELD_OUT, CONTRAST_SET = ("held-out", "contrast-set")
PREFIXES: Mapping[str, type[Any]] = {"pretrain.": PretrainConfig, "finetune.": FinetuneConfig}
_OF_CLINE = "pretrain.objective.cline."
"""Prefix of options that runs with another objective refuse."""
_STOPS = "train.max_minutes"
"""Option that ends a run before its last step, with exit code 0."""


@dataclass(frozen=True)
class Settings:
    """Settings of a recipe from ``--set``: ``encoder=…``, ``text=…``, and options of all its runs."""

    encoder: str = ""
    """The checkpoint that ``mini`` continues; by default the one that comes with the extra ``demo``."""
    tagger: str = ""
    """Tagger of words for CLINE, as in ``corpus build``."""
    text: str = ""
    """Text for pre-training instead of the data's corpus/."""
    texts: tuple[tuple[str, str], ...] = ()
    """Model of the tables, and a text that only this model is trained on."""
    select: str = ""
    """What CLINE's tables select the learning rate on: ``held-out`` training examples, or ``contrast-set``, as in the
    paper, which is the test set. Empty: ``held-out`` in Table 4, and a fixed learning rate in the others."""
    adversaries: tuple[tuple[str, str], ...] = ()
    """Task and a file of adversarial examples, published or saved, to use instead of generating them; for SQuAD, in
    addition to the generated ones, and any number of files."""
    options: tuple[tuple[str, str], ...] = ()
    """Kind of run (``pretrain`` or ``finetune``) and an option of all its runs, as ``--set`` takes it."""

    @classmethod
    def parse(cls, settings: Sequence[str]) -> Settings:
        """Read ``key=value`` pairs; ``pretrain.KEY`` and ``finetune.KEY`` are options of all runs.

        Raises:
            ConfigError: for an unknown name, or an option that a run would refuse.

        Example:
            >>> Settings.parse(["encoder=runs/base", "finetune.epochs=1"]).options
            (('finetune', 'epochs=1'),)
        """
        found = cls()
        for setting in settings:
            key, equals, value = setting.partition("=")
            prefix = next((prefix for prefix in PREFIXES if key.startswith(prefix)), "")
            if prefix and equals:
                option = setting.removeprefix(prefix)
                override(PREFIXES[prefix](), [option])
                if _full_name(setting) == f"{prefix}{_STOPS}":
                    raise ConfigError(f"--set {setting}: a run that stops early is no result: set {prefix}train.steps")
                found = replace(found, options=(*found.options, (prefix[:-1], option)))
            elif key == "encoder" and equals:
                found = replace(found, encoder=value)
            elif key == "tagger" and equals:
                found = replace(found, tagger=value)
            elif key == "text" and equals:
                found = replace(found, text=value)
            elif key.startswith(_TEXT) and equals:
                model = key.removeprefix(_TEXT)
                if model not in MODELS:
                    raise ConfigError(f"--set {setting}: {unknown_name('model', model, MODELS)}")
                found = replace(found, texts=(*found.texts, (model, value)))
            elif key.startswith(_ADVERSARIES) and equals:
                task = key.removeprefix(_ADVERSARIES)
                if task not in (known := (*CLINE_FOLDERS, "squad")):
                    raise ConfigError(f"--set {setting}: {unknown_name('task', task, known)}")
                found = replace(found, adversaries=(*found.adversaries, (task, value)))
            elif key == "select" and equals:
                if value not in SELECTIONS:
                    raise ConfigError(f"--set {setting}: {unknown_name('selection', value, SELECTIONS)}")
                found = replace(found, select=value)
            else:
                raise ConfigError(f"--set {setting}: {unknown_name('setting of recipes', key, KNOWN)}")
        return found

    def value(self, kind: str, name: str) -> str:
        """Read an option of a kind of run by its full name; empty where it is not set.

        Example:
            >>> Settings.parse(["finetune.epochs=2"]).value("finetune", "epochs")
            '2'
        """
        given = [option for of, option in self.options if _full_name(f"{of}.{option}") == f"{kind}.{name}"]
        return given[-1].partition("=")[2].strip() if given else ""

    def words(self, kind: str, *, with_cline: bool = False) -> tuple[str, ...]:
        """Format the options of a kind of run as arguments, with or without those of CLINE's objective."""
        given = [option for of, option in self.options if of == kind]
        left_out = () if with_cline else (_OF_CLINE,)
        chosen = [option for option in given if not _full_name(f"{kind}.{option}").startswith(left_out)]
        return tuple(word for option in chosen for word in ("--set", option))


def _full_name(setting: str) -> str:
    """Return the key of a setting; options of runs, whose first parts users may omit, by their full names."""
    key = setting.partition("=")[0].strip()
    prefix = next((prefix for prefix in PREFIXES if key.startswith(prefix)), "")
    return prefix + full_name(PREFIXES[prefix](), key.removeprefix(prefix)) if prefix else key


@dataclass
class Setting:
    """A plan under construction, for a scale and data."""

    scale: Scale
    data: Path
    all_seeds: Sequence[int]
    """Seeds of pre-training and fine-tuning."""
    settings: Settings = field(default_factory=Settings)
    workers: int = 1
    plan: Plan = field(default_factory=Plan)
    taken: set[str] = field(default_factory=set)
    """Names of settings that the plan has read, whether they are given or not; for options, their prefix."""

    def _given(self, name: str) -> str:
        self.taken.add(name)
        return str(getattr(self.settings, name))

    def _options(self, kind: str, *, with_cline: bool = False) -> tuple[str, ...]:
        self.taken |= {f"{kind}.", *([_OF_CLINE] if with_cline else [])}
        return self.settings.words(kind, with_cline=with_cline)

    def refuse_idle(self, settings: Sequence[str], recipe: str) -> None:
        """Raise for settings that no job of the plan uses.

        Args:
            settings: As ``Settings.parse`` reads them.
            recipe: The plan's recipe, for the message.

        Raises:
            ConfigError: naming the first.
        """
        for setting in settings:
            key = _full_name(setting)
            taken = self.taken - {"pretrain."} if key.startswith(_OF_CLINE) else self.taken
            if not any(key == name or (name.endswith(".") and key.startswith(name)) for name in taken):
                raise ConfigError(f"--set {setting} changes nothing of {recipe}: leave it out")

    def has(self, backbone: str) -> bool:
        """Whether the scale has a model of the tables."""
        return backbone in self.scale.backbones

    def encoder(self, name: str) -> Argument:
        """Return a checkpoint: a hub name unchanged, a folder as input data."""
        if name == ENCODER:
            name = self._given("encoder") or str(find_encoder())
        return Input(Path(name), f"encoder {Path(name).name}") if Path(name).exists() else name

    def input(self, place: str, *parts: str, prefix: str = "", files: tuple[str, ...] = ()) -> Input:
        """Return data below the data folder, with its entry in ``SOURCES`` and the files that must exist."""
        source = SOURCES[place.partition("/")[0]]
        return Input(self.data / place, place, parts, prefix, source=source, files=files or files_needed(place, parts))

    def _contrast_folder(self, task: str, prefix: str = "") -> Input:
        return self.input(f"cline_eval/{CONTRAST_FOLDERS[task]}", prefix=prefix, files=CONTRAST_FILES[task])

    def file(self, place: str, pattern: str) -> Input:
        """Find the single data file that matches a pattern.

        Raises:
            ConfigError: if there is none, or several.
        """
        found = sorted((self.data / place).rglob(pattern))
        if len(found) != 1:
            several = f": {found[0].name} and {found[1].name} both are" if found else ""
            raise ConfigError(
                f"{place}: one file '{pattern}' is needed below '{self.data / place}'{several}: it comes from "
                f"{SOURCES[place]}"
            )
        return Input(found[0], f"{place}/{found[0].name}", source=SOURCES[place])

    def texts(self, backbone: str) -> tuple[Input, ...]:
        """Return the text for a model's pre-training.

        Raises:
            ConfigError: if there is none.
        """
        if model := self._with_own_text(backbone):
            path = dict(self.settings.texts)[model]
            return (Input(Path(path), f"text of {model}", source=f"--set {_TEXT}{model}={path}"),)
        if text := self._given("text"):
            return (Input(Path(text), "text", source="--set text=…"),)
        files = [path for path in sorted((self.data / "corpus").glob("*.txt*")) if ".valid." not in path.name]
        if not files:
            raise ConfigError(f"no *.txt below '{self.data / 'corpus'}': it is {SOURCES['corpus']}")
        return tuple(Input(path, f"corpus/{path.name}", source=SOURCES["corpus"]) for path in files)

    def _with_own_text(self, backbone: str) -> str:
        """Return the name under which a model's own text is set: its own, or that of its family; empty for none."""
        names = [name for name in sorted(MODELS, key=len, reverse=True) if f"{backbone}-".startswith(f"{name}-")]
        self.taken.update(f"{_TEXT}{name}" for name in names)
        return next((name for name in names if name in dict(self.settings.texts)), "")

    def tokenizer(self, backbone: str) -> Argument:
        """Return a model's tokenizer; if the scale has none, add a job that trains it on the text."""
        name = self.scale.backbones[backbone].tokenizer
        if name:
            return self.encoder(name)
        texts, job = self.texts(backbone), safe_name("tokenizer", self._with_own_text(backbone))
        command: Command = ("tokenizer", "train", *texts, "--vocab-size", "400", "--out", Output("tokenizer"))
        return Output("tokenizer", self.plan.add(Job(job, command)))

    def corpus(self, backbone: str, *, is_tagged: bool = False) -> Output:
        """Add the corpus for a model's tokenizer."""
        tokenizer = self.tokenizer(backbone)
        command: Command = (
            *("corpus", "build", *self.texts(backbone), "--tokenizer", tokenizer, "--out", Output("corpus")),
            *("--valid", "0.1" if self.scale.is_made_up else "0.01"),
            *self._tagging(is_tagged),
        )
        # Models with the same tokenizer share their corpus, under the first one's name.
        shared = next((job.name for job in self.plan.jobs.values() if job.command == command), "")
        name = shared or safe_name("corpus", backbone, "tagged" if is_tagged else "")
        return Output("corpus", self.plan.add(Job(name, command, minutes=5)))

    def _tagging(self, is_tagged: bool) -> Command:
        if not is_tagged:
            return ()
        tagger = self._given("tagger") or self.scale.tagger
        return ("--tagger", tagger) if tagger else ("--tag",)

    def pretrain(
        self, backbone: str, arm: str, seed: int, more: Sequence[str] = (), label: str = "", steps: int = 0
    ) -> Output:
        """Add a pre-training run.

        Args:
            backbone: A model that the scale has.
            arm: One of ``ARMS``.
            seed: The run's seed.
            more: Further arguments.
            label: Part of the job's name that distinguishes runs with further arguments or other steps.
            steps: Steps instead of the model's own; 0 to keep these.
        """
        model = self.scale.backbones[backbone]
        # Models of the paper that are the same at this scale share their runs.
        backbone = next(name for name, one in self.scale.backbones.items() if one == model)
        asked = int(float(self.settings.value("pretrain", "train.steps") or 0))
        if backbone.startswith("BERT") and not (arm or more or label or steps or 0 < asked < _KEEPS_FROM):
            more, label = KEEP, "kept"  # as in tn-table2, to share its run: training is the same
        if steps:
            minutes = model.minutes * steps / (steps_of(model.pretrain) or steps)
            model = replace(model, pretrain=of_steps(model.pretrain, steps), minutes=minutes)
        name = safe_name("pretrain", backbone, arm.replace(" ", "-"), label, f"s{seed}")
        is_cline, is_control = arm.startswith("CLINE"), arm == "continued"
        corpus = self.corpus(backbone, is_tagged=is_cline)
        arguments = self._cline(model.pretrain, is_control) if is_cline or is_control else model.pretrain
        command: Command = (
            "pretrain",
            *(self.encoder(word) if word == ENCODER else word for word in arguments),
            *("--corpus", corpus, "--out", Output("run"), "--seed", str(seed)),
            *self._arm(arm, backbone, corpus),
            *(_JUDGED if arm and "electra-mini" in model.pretrain else ()),
            *more,
            *self._options("pretrain", with_cline=is_cline),
        )
        minutes = training_minutes(arguments, model.minutes * (3 if is_cline else 1), asked)
        return Output("run", self.plan.add(Job(name, command, resumes=True, minutes=minutes)))

    def checkpoint(self, backbone: str, seed: int) -> Argument:
        """Return a model's released checkpoint; if the scale has none, add a run and return its output."""
        released = self.scale.backbones[backbone].checkpoint
        return self.encoder(released) if released else self.pretrain(backbone, "", seed)

    def finetune(self, model: Argument, label: str, task: str, seed: int, more: Command = ()) -> str:
        """Add a fine-tuning job for one seed; return its name."""
        settings = dict(self.scale.finetune)
        if long := self.scale.long_tasks.get(task):
            settings |= {"task.length": long.length, "task.max_train_examples": long.max_train_examples}
        place, parts = place_of(task)
        several = "glue" if "," in task else task
        command: Command = (
            *("finetune", model, "--task", task, "--data", self.input(place, *parts), "--seed", str(seed)),
            *("--out", Output("")),
            *with_settings(settings),
            *more,
            *self._options("finetune"),
        )
        name = safe_name("finetune", label.replace(" ", "-"), several, f"s{seed}")
        return self.plan.add(Job(name, command, resumes=True, minutes=tuning_minutes(self.scale, task, command)))

    def model(self, job: str) -> Output:
        """Return the output of a fine-tuning job: the folder of its task."""
        command = self.plan.jobs[job].command
        return Output(str(command[command.index("--task") + 1]).rpartition("/")[2], job)

    def of_model(self, job: str, label: str, verb: Command, *arguments: Argument) -> str:
        """Add a command on a fine-tuned model that writes results to its own folder; return the job's name."""
        name = safe_name(label, job.removeprefix("finetune-"))
        command = (*verb, self.model(job), *arguments, "--results", Output(""))
        return self.plan.add(Job(name, command, minutes=self.scale.minutes / 2))

    def results(self, job: str, of: str) -> Output:
        """Return the results of such a command on a fine-tuned model: the folder of its task."""
        return Output(self.model(of).path, job)

    def contrast_set(self, job: str, task: str) -> str:
        """Add the evaluation of a fine-tuned model on its task's contrast set."""
        return self.of_model(job, "contrast", ("evaluate", "contrast-set"), "--data", self._contrast_folder(task))

    def selection(self, default: str = "") -> str:
        """Return what learning rates are selected on; empty if a fixed one is used.

        Args:
            default: Value if the settings do not specify it.
        """
        return self._given("select") or default

    def swept(self, task: str, select: str) -> Command:
        """Return the arguments that select a learning rate, as in CLINE's section 4.3.

        For a task without a contrast set, it is selected on held-out training examples.
        """
        rates = ",".join(f"{rate:g}" for rate in self.scale.learning_rates)
        is_contrast = select == CONTRAST_SET and task in CONTRAST_FOLDERS
        on: Argument = self._contrast_folder(task, f"{CONTRAST_SET}:") if is_contrast else HELD_OUT
        return ("--sweep", f"optimizer.learning_rate={rates}", "--select-on", on)

    def adversaries(self, backbone: str, task: str) -> Argument:
        """Add TextFooler's adversarial examples against a model with a separate seed, which no table shows.

        Examples from the settings are used instead if there are any.
        """
        self.taken.add(f"{_ADVERSARIES}{task}")
        if given := dict(self.settings.adversaries).get(task):
            return Input(Path(given), f"adversarial examples of {task}", source=f"--set adversaries.{task}={given}")
        made_up = self.scale.is_made_up
        victim = self.finetune(self.checkpoint(backbone, 1), backbone, task, VICTIM_SEED, _LEARNS if made_up else ())
        encoder: Argument = "none" if made_up else self.encoder(ENCODER)
        command: Command = (
            *("attack", self.model(victim), "--attack", "textfooler", "--profile", "jin2019", "--split", "test"),
            *("--neighbours", self.file("vectors", self.scale.neighbours), "--encoder", encoder),
            *("--max-examples", str(self.scale.limit or 1000), "--save", Output("adversaries.jsonl")),
            *(_FINDS if made_up else ()),
        )
        name = safe_name("adversaries", backbone, task)
        return Output("adversaries.jsonl", self.plan.add(Job(name, command, minutes=5 * self.scale.minutes)))

    def adversarial_squad(self) -> list[Input]:
        """Return the files of adversarial SQuAD (Jia and Liang 2017) from the settings.

        Raises:
            TruenegError: for a missing or invalid file, or two files whose columns would have the same name.
        """
        self.taken.add(f"{_ADVERSARIES}squad")
        given = [Path(path) for task, path in self.settings.adversaries if task == "squad"]
        for number, path in enumerate(given):
            read_published_squad(path)
            if path.stem in [other.stem for other in given[:number]]:
                raise ConfigError(f"--set {_ADVERSARIES}squad={path}: another is called {path.stem}, too: rename one")
        return [Input(path, f"adversarial SQuAD {path.name}") for path in given]

    def _cline(self, arguments: Sequence[str], is_control: bool) -> tuple[str, ...]:
        """Convert a model's arguments to CLINE's or its control's, with the paper's preset or the model's own sizes."""
        words = list(arguments)
        if words[0].startswith(PAPERS):
            words = [words[0].replace("tn-", "cline-")]  # with CLINE's steps, not those of another paper
        if "--objective" in words:
            del words[words.index("--objective") : words.index("--objective") + 2]
        if self.scale.cline_steps:
            words += ["--steps", str(self.scale.cline_steps)]
        if is_control:
            return (*words, "--objective", "mlm")
        # The released variant sets its own views and original, unless these are given.
        is_released = self.settings.value("pretrain", "objective.cline.variant") == "released"
        own = () if is_released else self.scale.cline
        return (*words, *(() if words[0].startswith("cline-") else ("--objective", "cline")), *own)

    def _arm(self, arm: str, backbone: str, corpus: Output) -> tuple[Argument, ...]:
        if arm == "SMART":
            raise ConfigError("SMART is a way of fine-tuning, of cline-table2 and cline-table5: leave it out of --arms")
        if arm not in ARMS:
            raise ConfigError(unknown_name("arm", arm, [name for name in ARMS if name]))
        if arm == "HC GloVe":
            vectors = self.file("vectors", VECTORS)
            return ("--hard-correction", replace(vectors, prefix='neighbours:"', suffix='"[among=whole-vocabulary]'))
        if " in context" in arm:
            use, _, what = arm.partition(" in context")
            return ("--hard-correction", self._in_context(backbone, corpus, what.strip()), *_USES[use])
        plain: dict[str, tuple[Argument, ...]] = {
            "HC": ("--hard-correction", RETRIEVED),
            "HC agree": ("--hard-correction", "lexical[forms=agree]"),
            "SR": ("--soft-regularization", "token"),
            "SR sentence": ("--soft-regularization", "sentence"),
            "soft": ("--hard-correction", RETRIEVED, *_USES["soft"]),
            "smoothing": ("--set", "objective.smoothing.source=uniform"),
            "self": ("--set", "objective.smoothing.source=self"),
            "CLINE w/o RTD": ("--set", "objective.cline.rtd=false"),
            "CLINE w/o hard negatives": ("--set", "objective.cline.negatives=random"),
        }
        return plain.get(arm, ())

    def _in_context(self, backbone: str, corpus: Output, what: str) -> Output:
        """Add prototypes of the scale's encoder, and annotate the corpus with them unless they read online."""
        released = self.scale.backbones[backbone].checkpoint or self.scale.backbones[backbone].tokenizer
        encoder = self.encoder(released) if released else self.pretrain(backbone, "", 1)
        rows = ("--rows", str((self.scale.limit and max(self.scale.limit, 8) * 50) or 20000))
        command: Command
        command = ("detect", "prototypes", "--encoder", encoder, "--corpus", corpus, *rows, "--out", _PROTOTYPES)
        prototypes = self.plan.add(Job(safe_name("prototypes", backbone), command, minutes=5))
        detector = replace(_PROTOTYPES, job=prototypes, prefix='prototypes:"', suffix=f'"{_ACCEPTED[what]}')
        if self.scale.reads_online:
            return detector
        command = ("corpus", "annotate", corpus, "--detector", detector, "--out", Output("notes"))
        notes = self.plan.add(Job(safe_name("annotate", backbone, what), command, minutes=30))
        return Output("notes", notes, prefix='annotated:"', suffix='"')


_PROTOTYPES = Output("prototypes.safetensors")
_ACCEPTED = {"": "@0.62 & fits", "0.5": "@0.5 & fits", "vetoed": "@0.62 & fits & !derived & !proper"}
"""End of an arm's name to the part of what prototypes accept that it uses."""
_SOFT = ("--set", "objective.correction.use=soft_targets")
_SELF = ("objective.correction.use=restrict", "objective.smoothing.source=self", "objective.smoothing.share=0.5")
_USES: Mapping[str, tuple[str, ...]] = {
    "HC": (),
    "soft": _SOFT,
    "self": tuple(word for setting in _SELF for word in ("--set", setting)),
}
"""Beginning of an arm's name to its use of what its detector accepts."""

_JUDGED = ("--set", "objective.judged=argmax")
"""Section 3.2's definition of r_k, which the papers' presets already use."""


VICTIM_SEED = 100
"""Seed of the model that adversarial examples are generated against."""
_LEARNS = ("--set", "train.steps=60", "--set", "learning_rate=3e-3")
_FINDS = ("--set", "min_cosine=-1")
"""For made-up data: without them, the model predicts the same for everything, and no substitution changes that."""
