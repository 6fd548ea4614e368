"""``trueneg detect``: measure detectors of false negatives against human judgement, and choose their thresholds."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trueneg.cli.options import Device, WordNetPath
from trueneg.cli.output import Json, Output, Quiet, Verify, check_out, refuse_given
from trueneg.cli.resources import make_resources
from trueneg.errors import ConfigError, LexiconError, TruenegWarning, unknown_name
from trueneg.terminal.progress import Bar

if TYPE_CHECKING:
    from trueneg.evaluation.detectors.swords import Benchmark
    from trueneg.lexicon.wordnet import WordNet

app = typer.Typer(help="Evaluate, calibrate and train detectors of false negatives.", no_args_is_help=True)

THRESHOLDS = ("calibrated", "own")

FORMER = "swords"
"""Former name of ``benchmark``."""

Data = Annotated[Path, typer.Option(help="Human judgements in the JSON format of SWORDS: a file or a folder.")]
Inflect = Annotated[bool, typer.Option("--inflect/--no-inflect", help="Inflect base forms to fit the text.")]
Seed = Annotated[int, typer.Option(help="Random seed of folds, bootstrap and sampling.")]
Folds = Annotated[int, typer.Option(min=2, help="Number of cross-validation folds, split by target.")]
Limit = Annotated[int, typer.Option(min=0, help="Number of targets to use, drawn at random; 0 for all.")]


@app.command()
def benchmark(
    context: typer.Context,
    data: Data,
    detector: Annotated[
        list[str], typer.Option(help="Detector: lexical, neighbours:VECTORS, contextual:ENCODER, …; repeatable.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for results, table and curves.")] = Path("results"),
    threshold: Annotated[
        str,
        typer.Option(
            help="calibrated: precision, recall and F1 at a threshold chosen by cross-validation; a detector with one "
            "of its own (@0.62), or with yes/no verdicts, keeps it. own: at each detector's own threshold."
        ),
    ] = "calibrated",
    precision: Annotated[
        float | None, typer.Option(help="Calibrate to the lowest threshold with this precision instead of the best F1.")
    ] = None,
    vocabulary: Annotated[
        str | None, typer.Option(help="Tokenizer: also measure on the words that are single tokens in it.")
    ] = None,
    phrases: Annotated[
        str,
        typer.Option(
            help="Substitutes of several words in GAP: keep, drop, or auto, which keeps those of SWORDS and drops "
            "those of SemEval-07 and CoInCo, as in published results."
        ),
    ] = "auto",
    inflect: Inflect = True,
    limit: Limit = 0,
    folds: Folds = 10,
    resamples: Annotated[int, typer.Option(min=1, help="Number of bootstrap samples over targets.")] = 1000,
    wordnet: WordNetPath = "",
    device: Device = "",
    seed: Seed = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Evaluate detectors against human judgements of substitutes in context: SWORDS, CoInCo, SemEval-07.

    GAP, the field's standard metric, ranks each word's substitutes, merged by lemma; average precision ranks those of
    all words together. Neither needs a threshold. The share of WordNet's antonyms and sister terms that a detector
    accepts is measured at its threshold.

    Example: `trueneg detect benchmark --data swords-v1.1_dev.json.gz --detector lexical --out results/`
    """
    if context.info_name == FORMER:
        from trueneg.config.fields import warn_renamed

        warn_renamed(f"verb detect {FORMER}", "detect benchmark")
    if threshold not in THRESHOLDS:
        raise ConfigError(unknown_name("threshold", threshold, THRESHOLDS))
    if precision is not None and not 0 < precision <= 1:
        raise ConfigError(f"--precision {precision}: more than 0, at most 1")
    if out.exists() and not out.is_dir():
        raise ConfigError(f"--out {out} is a file: name a folder")
    if repeated := next((spec for spec in detector if detector.count(spec) > 1), None):
        raise ConfigError(f"--detector {repeated} is named twice: once is enough")

    from trueneg.detectors import make_scorer
    from trueneg.evaluation.detectors.candidates import lemmatizer, merge_candidates
    from trueneg.evaluation.detectors.distractors import distractors
    from trueneg.evaluation.detectors.substitution import evaluate_scorers
    from trueneg.evaluation.detectors.swords import single_tokens
    from trueneg.reporting.detection import HEADLINE, markdown, plot_curves, table_rows
    from trueneg.tokenizer import load_tokenizer

    output = Output(as_json, quiet)
    read = _read(data, inflect, limit, seed)
    tokenizer = load_tokenizer(vocabulary) if vocabulary else None
    resources = make_resources(wordnet, device)
    scorers = {spec: make_scorer(spec, resources) for spec in detector}
    lexicon = _wordnet(wordnet)
    wrong = distractors(read.items, lexicon, seed=seed, inflect=inflect) if lexicon else []
    output.say(f"{len(read.items):,} substitutes of {len(read.target_ids):,} words in context")
    result = evaluate_scorers(
        read.items,
        scorers,
        single=single_tokens(read.items, tokenizer) if tokenizer else None,
        wrong=wrong,
        candidates=merge_candidates(read.items, lemmatizer(lexicon), phrases=phrases) if lexicon else None,
        threshold="own" if threshold == "own" else "calibrated",
        keep_threshold=[spec for spec in detector if _states_threshold(spec)],
        precision=precision,
        folds=folds,
        resamples=resamples,
        seed=seed,
        data=read.digests,
        options={"inflect": inflect, "phrases": phrases, "limit": limit, "vocabulary": vocabulary},
        say=output.say,
    )
    result.save(out / "substitution.json")
    summary = result.summary()
    (out / "substitution.md").write_text(markdown(summary), encoding="utf-8")
    plot_curves(summary, out / "precision_recall.png")
    output.table({"rows": result.rows(), "out": out}, list(HEADLINE.values()), table_rows(summary, HEADLINE))


app.command(FORMER, hidden=True)(benchmark)


@app.command()
def calibrate(
    context: typer.Context,
    data: Data,
    detector: Annotated[str, typer.Option(help="Detector to calibrate: neighbours:VECTORS, contextual:ENCODER, …")],
    out: Annotated[Path, typer.Option(help="JSON file to write, which is itself a detector.")],
    precision: Annotated[float, typer.Option(help="Choose the lowest threshold with at least this precision.")] = 0.6,
    best_f1: Annotated[bool, typer.Option("--best-f1", help="Choose the threshold with the best F1 instead.")] = False,
    level: Annotated[str, typer.Option(help="Annotators who must accept a substitute: most or any.")] = "most",
    inflect: Inflect = True,
    limit: Limit = 0,
    folds: Folds = 10,
    wordnet: WordNetPath = "",
    device: Device = "",
    seed: Seed = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Choose a detector's threshold on human judgements, and save it with its provenance.

    The threshold is chosen on all the data; the reported precision and recall are cross-validated by target.

    Example: `trueneg detect calibrate --data swords-v1.1_dev.json.gz --detector contextual:ENCODER --out detector.json`
    """
    if out.is_dir():
        raise ConfigError(f"--out {out} is a folder: name a file, as {out / 'detector.json'}")
    if best_f1:
        refuse_given(context, {"precision"}, "--best-f1")

    from trueneg.detectors import make_scorer
    from trueneg.evaluation.detectors.calibration import calibrate as choose

    output = Output(as_json, quiet)
    benchmark = _read(data, inflect, limit, seed)
    chosen = choose(
        benchmark.items,
        make_scorer(detector, make_resources(wordnet, device)),
        precision=None if best_f1 else precision,
        level=level,
        folds=folds,
        seed=seed,
        detector=detector,
        data=benchmark.digests,
        say=output.say,
    )
    chosen.save(out)
    measured = "not known" if chosen.precision is None else f"{chosen.precision:.3f}"
    text = (
        f"{detector} accepts from {chosen.threshold:.4g} on: precision {measured}, recall "
        f"{chosen.recall:.3f} ({level}; cross-validated by target, {folds} folds of {chosen.num_targets:,}); {out}"
    )
    output.result({"out": out, **chosen.summary()}, text)


@app.command()
def prototypes(
    encoder: Annotated[str, typer.Option(help="Encoder: a checkpoint or a hub name.")],
    corpus: Annotated[Path, typer.Option(help="Corpus folder; the words of its vocabulary get prototypes.")],
    out: Annotated[Path, typer.Option(help="File to write (.safetensors).")],
    layer: Annotated[
        int | None,
        typer.Option(min=0, help="Layer whose hidden states are averaged; by default two thirds of the way up."),
    ] = None,
    rows: Annotated[int, typer.Option(min=0, help="Rows of the corpus to read, drawn at random; 0 for all.")] = 0,
    length: Annotated[int, typer.Option(min=8, help="Tokens per row.")] = 128,
    min_count: Annotated[int, typer.Option(min=1, help="Minimum number of occurrences of a word.")] = 5,
    least: Annotated[int | None, typer.Option(min=1, hidden=True)] = None,
    device: Device = "",
    seed: Seed = 0,
    verify: Verify = True,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Average an encoder's vectors of every word over a corpus, so that one pass over a text scores all substitutes.

    Example: `trueneg detect prototypes --encoder ENCODER --corpus corpus/ --rows 20000 --out prototypes.safetensors`,
    then `trueneg corpus annotate corpus/ --detector "prototypes:prototypes.safetensors & fits" --out notes/`
    """
    from trueneg.config.fields import warn_renamed
    from trueneg.corpus.store import Corpus
    from trueneg.detectors.scorers.prototypes import learn_prototypes

    if least is not None:
        warn_renamed("option --least", "--min-count")
        min_count = least
    check_out(out, "prototypes.safetensors")
    opened = Corpus.open(corpus, verify=verify)
    with Bar("reading", unit="rows", quiet=quiet) as bar:
        learned = learn_prototypes(
            encoder,
            opened,
            layer=layer,
            device=make_resources("", device).device,
            max_rows=rows,
            length=length,
            min_count=min_count,
            seed=seed,
            progress=bar.tell,
        )
    learned.save(out)
    text = f"{out}: prototypes of {len(learned.words):,} words, from {int(learned.counts.sum()):,} occurrences"
    Output(as_json, quiet).result({"out": out, **learned.provenance}, text)


@app.command()
def bigrams(
    corpus: Annotated[Path, typer.Option(help="Corpus folder, whose adjacent words are counted.")],
    out: Annotated[Path, typer.Option(help="File to write (.safetensors).")],
    min_count: Annotated[int, typer.Option(min=1, help="Minimum number of occurrences of a pair.")] = 2,
    verify: Verify = True,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Count adjacent word pairs in a corpus, as a feature for learned detectors.

    Example: `trueneg detect bigrams --corpus corpus/ --out bigrams.safetensors`, then `trueneg detect calibrate
    --detector "learned:ENCODER[bigrams=bigrams.safetensors]" --data swords-v1.1_dev.json.gz --out detector.json`
    """
    from trueneg.corpus.bigrams import count_bigrams
    from trueneg.corpus.store import Corpus

    check_out(out, "bigrams.safetensors")
    opened = Corpus.open(corpus, verify=verify)
    with Bar("counting", unit="documents", quiet=quiet) as bar:
        counted = count_bigrams(opened, min_count=min_count, progress=bar.tell)
    counted.save(out)
    num_pairs, num_words = len(counted.pairs), len(counted.words)
    num_read = int(counted.word_counts[1:].sum())  # without the boundaries of documents
    text = f"{out}: {num_pairs:,} pairs of {num_words:,} words, from {num_read:,} words of text"
    Output(as_json, quiet).result({"out": out, "pairs": num_pairs, "words": num_words, **counted.provenance}, text)


@app.command()
def distil(
    teacher: Annotated[str, typer.Option(help="Detector to learn from: DETECTOR.json, contextual:ENCODER, …")],
    prototypes: Annotated[Path, typer.Option(help="Prototypes to start from: a file made by detect prototypes.")],
    corpus: Annotated[Path, typer.Option(help="Corpus folder; the teacher scores substitutes of its words.")],
    out: Annotated[Path, typer.Option(help="File to write (.safetensors).")],
    rows: Annotated[int, typer.Option(min=3, help="Corpus rows that the teacher scores, drawn at random.")] = 500,
    words: Annotated[int, typer.Option(min=1, help="Words per row that the teacher scores, drawn at random.")] = 4,
    top: Annotated[int, typer.Option(min=1, help="Nearest prototypes per word that the teacher scores.")] = 16,
    length: Annotated[int, typer.Option(min=8, help="Tokens per row.")] = 128,
    wordnet: WordNetPath = "",
    device: Device = "",
    seed: Seed = 0,
    verify: Verify = True,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Distil a stronger detector's scores into prototypes, which stay as fast and keep their file format.

    On a sample of a corpus, the teacher scores each word's nearest prototypes; one linear map of the prototypes is
    fitted to its scores. A fifth of the rows decides when to stop; results are measured on another fifth.

    Example: `trueneg detect distil --teacher detector.json --prototypes prototypes.safetensors --corpus corpus/ --out
    distilled.safetensors`
    """
    from trueneg.corpus.store import Corpus
    from trueneg.detectors import make_scorer
    from trueneg.detectors.scorers.prototypes import load_pair
    from trueneg.detectors.specification import Leaf
    from trueneg.evaluation.detectors.distillation import distil as learn

    check_out(out, "prototypes.safetensors")
    resources = make_resources(wordnet, device)
    leaf = Leaf("prototypes", str(prototypes), text=f"prototypes:{prototypes}")
    encoder, known = load_pair(leaf, resources.device, window=sys.maxsize)
    opened, scorer = Corpus.open(corpus, verify=verify), make_scorer(teacher, resources)
    with Bar("asking", unit="rows", quiet=quiet) as bar:
        learned = learn(
            scorer,
            known,
            encoder,
            opened,
            max_rows=rows,
            words=words,
            top=top,
            length=length,
            seed=seed,
            progress=bar.tell,
        )
    learned.prototypes.save(out)
    text = (
        f"{out}: {teacher} accepts {learned.num_accepted:,} of {learned.num_pairs:,} substitutes; threshold "
        f"{learned.prototypes.threshold:.3f}"
    )
    if learned.before is not None:
        text += f"; average precision by its verdicts, on rows held out: {learned.before:.3f}, now {learned.after:.3f}"
    told = {name: value for name, value in vars(learned).items() if name != "prototypes"}
    Output(as_json, quiet).result({"out": out, **told, "threshold": learned.prototypes.threshold}, text)


def _states_threshold(detector: str) -> bool:
    """Whether a specification states its threshold: with ``@``, or in a file of ``detect calibrate``."""
    from trueneg.detectors.specification import leaves, parse

    return any(leaf.threshold is not None or leaf.name == "calibrated" for leaf in leaves(parse(detector)))


def _read(data: Path, inflect: bool, limit: int, seed: int) -> Benchmark:
    from trueneg.evaluation.detectors.swords import read_benchmark

    benchmark = read_benchmark(data, inflect=inflect)
    return benchmark.sample(limit, seed) if limit else benchmark


def _wordnet(folder: str) -> WordNet | None:
    """Load WordNet; without a named folder, warn and return None if it is not found."""
    from trueneg.lexicon.wordnet import WordNet

    try:
        return WordNet.load(folder or None)
    except LexiconError as error:
        if folder:
            raise
        warnings.warn(f"GAP, antonyms and sister terms are left out: {error}", TruenegWarning, stacklevel=2)
        return None
