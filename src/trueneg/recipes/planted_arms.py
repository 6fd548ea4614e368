"""One run of the planted experiment: an arm and a seed, trained with the library's training step, then evaluated."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import scipy
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoModel, AutoModelForMaskedLM, PretrainedConfig, PreTrainedTokenizerFast

from trueneg.config.fields import current_value, option, own_rules
from trueneg.config.objective_options import CorrectionConfig, MaskingConfig
from trueneg.config.options import ModelConfig, OptimizerConfig, TrainConfig
from trueneg.config.validation import check_bounds
from trueneg.corpus.rows import RowIndex
from trueneg.corpus.store import Corpus
from trueneg.corruption.keyed import mixed_seed
from trueneg.corruption.masking import Masking
from trueneg.corruption.rows import MaskedRows, Rows
from trueneg.detectors.base import Proposals
from trueneg.errors import ConfigError, DivergedError, unknown_name
from trueneg.models.backbone import MaskedLanguageModel
from trueneg.models.configurations import generator_config, hf_config
from trueneg.models.electra import Discriminator, ElectraPair
from trueneg.models.heads import ReplacedTokenHead
from trueneg.objectives.base import Objective
from trueneg.objectives.correction import HardCorrection
from trueneg.objectives.mlm import MaskedLM
from trueneg.objectives.regularization import SoftRegularization
from trueneg.objectives.rtd import ReplacedTokenDetection
from trueneg.objectives.smoothing import Smoothing
from trueneg.recipes.planted_corpus import SHARES, UNSPLIT, Placebo, PlantedDetector, PlantedRows, Planting
from trueneg.tokenizer import special_ids
from trueneg.training.batches import EVALUATION_SEED, CorpusBatches, held_out_batches
from trueneg.training.step import Run, train_step

MASKED_LM = {
    "baseline": "planted text, nothing corrected",
    "drop": "loss of a false negative dropped (the paper's hard correction)",
    "down_weight": "loss of a false negative halved: credit 1/2",
    "marginal": "-log of the total probability of gold and what is accepted in its place",
    "soft_targets": "target spread evenly over gold and what is accepted in its place",
    "smoothing": "a tenth of the target spread over the whole vocabulary",
    "self": "a tenth of the target spread over what the model itself says (Zhong et al. 2023)",
    "average": "a tenth of the target spread over what the model's moving average says",
    "restricted": "half of the target spread over what the model itself says, of what is accepted in gold's place",
    "regularized": "the paper's soft regularization of token embeddings",
    "placebo": "loss dropped at as many mispredictions, drawn at random",
    "ceiling": "text without planted synonyms",
}
ELECTRA = {
    "electra": "ELECTRA on planted text, nothing corrected",
    "relabel": "false negatives are 'original' to the discriminator; the generator is left alone",
}
ARMS = MASKED_LM | ELECTRA
"""The arms that are compared, with descriptions."""

_TAKES_DETECTOR = ("drop", "down_weight", "marginal", "soft_targets", "restricted", "placebo", "relabel")


@dataclass(frozen=True)
class Arm:
    """How false negatives are used, and how well they are detected.

    Example:
        >>> Arm.parse("marginal@0.5/0.25")
        Arm(use='marginal', precision=0.5, recall=0.25)
        >>> str(Arm.parse("drop"))
        'drop'
    """

    use: str
    precision: float = 1.0
    recall: float = 1.0

    @classmethod
    def parse(cls, text: str) -> Arm:
        """Read ``use`` or ``use@precision/recall``.

        Raises:
            ConfigError: for an unknown use, or shares outside (0, 1].
        """
        use, at, shares = text.partition("@")
        use = current_value(own_rules(CorrectionConfig)["use"], use, "arm")
        if use not in ARMS:
            raise ConfigError(unknown_name("arm", use, ARMS))
        if not at:
            return cls(use)
        try:
            precision, recall = (float(share) for share in shares.split("/"))
        except ValueError as error:
            raise ConfigError(f"arm '{text}': write it as {use}@PRECISION/RECALL, such as {use}@0.5/0.25") from error
        if use not in _TAKES_DETECTOR:
            raise ConfigError(f"arm '{text}': '{use}' has no detector; those that have: {', '.join(_TAKES_DETECTOR)}")
        if not (0 < precision <= 1 and 0 < recall <= 1):
            raise ConfigError(f"arm '{text}': precision and recall must be in (0, 1]")
        return cls(use, precision, recall)

    def __str__(self) -> str:
        """Format it as ``parse`` reads it; without precision and recall for the oracle."""
        is_oracle = self.precision == self.recall == 1
        return self.use if is_oracle else f"{self.use}@{self.precision:g}/{self.recall:g}"

    @property
    def is_electra(self) -> bool:
        """Whether a discriminator is trained alongside a masked language model."""
        return self.use in ELECTRA

    @property
    def yardstick(self) -> Arm:
        """The baseline: the arm with the same kind of model in which nothing is corrected."""
        return Arm("electra" if self.is_electra else "baseline")


@dataclass(frozen=True)
class PlantedConfig:
    """Settings of the experiment: all that a result depends on besides corpus, arm and seed."""

    listed_as = "planted-options"  # by `trueneg list`

    num_words: int = option(596, at_least=1)
    """Words that are split into four spellings each: the most frequent ones."""
    words: Literal["any", "content"] = "any"
    """Which words can be split; ``content``: of three letters or more, and no stop words."""
    length: int = option(32, at_least=3)
    """Tokens per row."""
    masking_rate: float = option(0.3, above=0, at_most=1)
    """Share of a row's tokens that are masked."""
    num_layers: int = option(2, at_least=1)
    """Number of Transformer layers."""
    hidden_size: int = option(128, at_least=1)
    """Width of the hidden states."""
    num_heads: int = option(4, at_least=1)
    """Attention heads per layer; the hidden size is divided among them."""
    intermediate_size: int = option(256, at_least=1)
    """Width of the feed-forward layers."""
    window: int = option(6, at_least=2)
    """Attention window in tokens, half of them on each side."""
    steps: int = option(1200, at_least=1)
    """Optimizer steps."""
    batch_size: int = option(32, at_least=1)
    """Rows per step."""
    learning_rate: float = option(3e-3, above=0)
    """Peak learning rate."""
    warmup_steps: int = option(50, at_least=0)
    """Steps over which the learning rate rises from 0 to its peak."""
    eval_rows: int = option(2048, at_least=1)
    """Held-out rows to evaluate on."""

    def __post_init__(self) -> None:
        check_bounds(self)

    def sizes(self, tokenizer: PreTrainedTokenizerFast) -> PretrainedConfig:
        """Make the model's Hugging Face configuration.

        A ModernBERT with only local attention: such a small model leaves the unigram plateau within a thousand
        steps only if it does not first have to learn that neighbours matter. Hence rotary positions, a narrow window,
        and a larger initializer range (0.02 suits a width of 768).
        """
        model = ModelConfig(
            architecture="modernbert",
            num_layers=self.num_layers,
            hidden_size=self.hidden_size,
            num_heads=self.num_heads,
            intermediate_size=self.intermediate_size,
            max_positions=self.length,
            dropout=0.0,
        )
        hf = hf_config(model, tokenizer)
        hf.local_attention, hf.initializer_range = self.window, 0.05
        hf.layer_types = ["sliding_attention"] * self.num_layers
        return hf

    def masking(self) -> MaskingConfig:
        """Make the masking: chosen tokens are always masked, so the input is the same for any number of spellings."""
        return MaskingConfig(rate=self.masking_rate, mask_share=1.0)

    def optimizer(self) -> OptimizerConfig:
        """Make the optimizer: a linear schedule, and a beta2 for a short run."""
        return OptimizerConfig(learning_rate=self.learning_rate, warmup_steps=self.warmup_steps, beta2=0.98)

    def training(self, seed: int) -> TrainConfig:
        """Make the training options: fp32, which is as fast for small matrices on a CPU."""
        return TrainConfig(steps=self.steps, batch_size=self.batch_size, seed=seed)


@dataclass(frozen=True)
class ArmResult:
    """Result of one run.

    Attributes:
        arm: As ``Arm.parse`` reads it.
        seed: Seed of weights, spellings, order and masks.
        metrics: On held-out text: ``nll`` of the right class in nats and ``accuracy`` over masked positions, the
            same over planted words only; for ELECTRA ``auc`` over all tokens and over masked ones. Metrics with too few
            examples are left out.
        detector: The detector's ``precision``, ``recall`` and ``num_credited`` on the mispredictions of all training.
        planted_share: Share of the corpus's tokens that are planted words.
        seconds: Time of training and evaluation.
    """

    arm: str
    seed: int
    metrics: dict[str, float]
    detector: dict[str, float]
    planted_share: float
    seconds: float


def run_arm(arm: Arm, seed: int, config: PlantedConfig, corpus: Path) -> ArmResult:
    """Train and measure one arm, on one thread of the CPU.

    Arms with the same seed start from the same weights and see the same rows, masks and (except in ``ceiling``)
    spellings, so that their differences are paired. Held-out text, its spellings and masks are the same for all seeds.

    Raises:
        TruenegError: if the corpus cannot be used, or the loss is not finite.
    """
    started = time.monotonic()
    with _one_thread():
        train, held_out = Corpus.open(corpus), Corpus.open(corpus, "valid")
        tokenizer = train.load_tokenizer()
        planting = Planting.of_most_frequent(RowIndex(train, config.length), tokenizer, config.num_words, config.words)
        planting.extend(tokenizer)
        shares = UNSPLIT if arm.use == "ceiling" else SHARES
        torch.manual_seed(mixed_seed(seed))
        model = make_model(arm, config, tokenizer)
        masked_lm, objective = make_objective(arm, planting, config, tokenizer, seed)
        objective.attach(model)
        run = Run.new(model, objective, config.optimizer(), config.training(seed), torch.device("cpu"))
        rows = PlantedRows(train, config.length, planting, seed, shares)
        for micro_batches in CorpusBatches(rows, run.config, run.processes).from_step(0, config.steps):
            train_step(run, micro_batches)
        if run.first_bad_step >= 0:
            raise DivergedError(
                f"arm {arm}, seed {seed}: the loss is not finite at step {int(run.first_bad_step)}: lower learning_rate"
            )
        correction, masked_lm.correction = masked_lm.correction, None  # metrics do not depend on detectors
        masked_lm.smoothing = None
        unseen = PlantedRows(held_out, config.length, planting, EVALUATION_SEED, shares)
        batches = held_out_batches(unseen, config.eval_rows, 64, run.processes)
        metrics = measure(model.eval(), masked_lm, planting, batches)
    detector = correction.detector if correction else None
    readings = detector.readings() if isinstance(detector, PlantedDetector) else {}
    return ArmResult(str(arm), seed, metrics, readings, planting.share, time.monotonic() - started)


def make_model(arm: Arm, config: PlantedConfig, tokenizer: PreTrainedTokenizerFast) -> nn.Module:
    """Make an arm's masked language model; for ELECTRA a generator of half its depth, and a discriminator."""
    sizes = config.sizes(tokenizer)

    def masked_lm(of: PretrainedConfig) -> MaskedLanguageModel:
        return MaskedLanguageModel(AutoModelForMaskedLM.from_config(of, attn_implementation="sdpa"))

    if not arm.is_electra:
        return masked_lm(sizes)
    encoder = AutoModel.from_config(sizes, attn_implementation="sdpa")
    generator = masked_lm(generator_config(sizes, ModelConfig(generator_depth=0.5)))
    return ElectraPair(generator, Discriminator(encoder, ReplacedTokenHead(sizes.hidden_size)))


def make_objective(
    arm: Arm, planting: Planting, config: PlantedConfig, tokenizer: PreTrainedTokenizerFast, seed: int
) -> tuple[MaskedLM, Objective[Any, Any]]:
    """Make an arm's masked-LM objective, and the training objective: the same, or ELECTRA wrapped around it.

    Args:
        arm: The arm.
        planting: The planted synonyms.
        config: Settings of the experiment.
        tokenizer: Tokenizer with an entry for every spelling.
        seed: Seed of an imperfect detector's errors.
    """
    detector = PlantedDetector(
        planting, arm.precision, arm.recall, mixed_seed(seed, 1), credit=0.5 if arm.use == "down_weight" else 1.0
    )
    corrections: dict[str, Callable[[], HardCorrection]] = {
        "drop": lambda: HardCorrection(detector, "drop"),
        "down_weight": lambda: HardCorrection(detector, "down_weight"),
        "marginal": lambda: HardCorrection(detector, "marginal"),
        "soft_targets": lambda: HardCorrection(detector, "soft_targets"),
        "restricted": lambda: HardCorrection(detector, "restrict"),
        "placebo": lambda: HardCorrection(Placebo(detector), "drop"),
        "relabel": lambda: LabelsOnly(detector),
    }
    smoothings: dict[str, Callable[[], Smoothing]] = {
        "smoothing": lambda: Smoothing("uniform"),
        "self": lambda: Smoothing("self"),
        "average": lambda: Smoothing("average", momentum=0.99),
        "restricted": lambda: Smoothing("self", share=0.5, reads="masked"),
    }
    mask_id = special_ids(tokenizer)["mask"]
    assert mask_id is not None
    masked_lm = MaskedLM(
        Masking(config.masking(), mask_id, len(tokenizer), tokenizer.all_special_ids),
        correction=corrections[arm.use]() if arm.use in corrections else None,
        regularizers=[SoftRegularization()] if arm.use == "regularized" else [],
        prediction="sampled" if arm.is_electra else "argmax",
        smoothing=smoothings[arm.use]() if arm.use in smoothings else None,
    )
    return masked_lm, ReplacedTokenDetection(masked_lm) if arm.is_electra else masked_lm


class LabelsOnly(HardCorrection):
    """Corrects the discriminator's labels only; the generator keeps its plain loss."""

    def masked_lm_loss(
        self,
        token_loss: Tensor,
        logits: Tensor | None,
        credit: Tensor,
        proposals: Proposals | None,
        batch: MaskedRows,
    ) -> Tensor:
        """Sum ``-log p(gold)`` over masked positions."""
        return (token_loss * batch.is_masked).sum()


@torch.no_grad()
def measure(model: nn.Module, masked_lm: MaskedLM, planting: Planting, batches: Iterable[Rows]) -> dict[str, float]:
    """Evaluate a model on held-out rows, by classes of interchangeable tokens: see ``ArmResult.metrics``."""
    pair = model if isinstance(model, ElectraPair) else None
    generator: Any = model if pair is None else pair.generator
    classes, words = planting.classes(), torch.from_numpy(planting.words())
    at_masks, at_tokens = [], []
    for rows in batches:
        prediction = masked_lm.predict(generator, masked_lm.corrupt(rows))
        batch, is_masked = prediction.batch, prediction.batch.is_masked
        gold = batch.gold[is_masked]
        logits = planting.class_logits(prediction.logits.whole()[is_masked])
        loss = functional.cross_entropy(logits, classes[gold], reduction="none")
        is_planted = batch.is_whole_word[is_masked] & (words[gold] >= 0)
        at_masks.append(torch.stack([loss, (logits.argmax(-1) == classes[gold]), is_planted]))
        if pair is not None:
            scores = pair.discriminator.replaced_logits(pair.discriminator.encode(prediction.inserted_ids, rows))
            is_wrong = classes[prediction.inserted_ids] != classes[rows.input_ids]
            was_masked = torch.zeros_like(is_wrong).scatter(1, batch.positions, is_masked)
            at_tokens.append(torch.stack([scores, is_wrong, was_masked])[:, rows.segments > 0])
    loss, is_right, is_planted = torch.cat(at_masks, dim=1)
    metrics = {"nll": float(loss.mean()), "accuracy": float(is_right.mean())}
    if is_planted.any():
        metrics["planted_nll"] = float(loss[is_planted > 0].mean())
        metrics["planted_accuracy"] = float(is_right[is_planted > 0].mean())
    if at_tokens:
        score, is_wrong, was_masked = torch.cat(at_tokens, dim=1).numpy()
        for name, counted in {"auc": was_masked >= 0, "masked_auc": was_masked > 0}.items():
            wrong, right = score[counted & (is_wrong > 0)], score[counted & (is_wrong == 0)]
            if len(wrong) and len(right):  # AUC is Mann-Whitney's U divided by the number of pairs
                u = scipy.stats.mannwhitneyu(wrong, right, method="asymptotic").statistic
                metrics[name] = float(u) / (len(wrong) * len(right))
    return metrics


@contextmanager
def _one_thread() -> Iterator[None]:
    """Run on one thread, so that sums and results do not depend on the number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
