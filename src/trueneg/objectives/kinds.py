"""What a run needs to know about an objective: its model, rows, defaults and exported checkpoint."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, cast

from torch import nn
from transformers import PreTrainedTokenizerFast

from trueneg.config.codec import override
from trueneg.config.objective_options import ObjectiveConfig
from trueneg.config.options import PretrainConfig
from trueneg.corpus.rows import NumberedRows
from trueneg.corruption.rows import ReadRows, read_rows
from trueneg.errors import ConfigError
from trueneg.models.backbone import Encoder, MaskedLanguageModel
from trueneg.models.export import save_hugging_face
from trueneg.models.loading import load_masked_lm, masked_lm_of_shapes
from trueneg.objectives.base import Objective


class ObjectiveKind(ABC):
    """An objective's entry in the registry: everything that a run looks up by the objective's name.

    The defaults are those of a masked language model over plain rows, so that a subclass overrides only what differs.
    ``trueneg list objectives`` shows the first line of a plugin's docstring.
    """

    defaults: ClassVar[ObjectiveConfig]
    """Defaults that ``--objective NAME`` sets: masking shares and the kind of prediction."""
    Options: ClassVar[type[Any] | None] = None
    """A frozen dataclass of the objective's own options, given as ``objective.options=key=value,key=value``."""
    needs_tags: ClassVar[bool] = False
    """Whether rows are read with their part-of-speech tags."""
    card: ClassVar[str] = "with an objective of its own"
    """Completes "A text encoder pre-trained ..." in the model card."""
    is_baseline: ClassVar[bool] = False
    """Whether a run without correction and regularization is the papers' baseline; the model card says so."""
    auto_class: ClassVar[str] = "AutoModelForMaskedLM"
    """The class of transformers that loads ``hf/`` with its head."""
    masked_lm_folder: ClassVar[str] = ""
    """Subfolder of ``hf/`` with the masked language model; empty for ``hf/`` itself."""
    tag: ClassVar[str] = "fill-mask"
    """The tag of its models on the Hub."""

    @abstractmethod
    def make_objective(
        self, config: ObjectiveConfig, tokenizer: PreTrainedTokenizerFast, vocab_size: int
    ) -> Objective[Any, Any]:
        """Make the objective that a configuration describes.

        Args:
            config: Masking, correction, regularization and the objective's other options.
            tokenizer: The corpus's tokenizer.
            vocab_size: Size of the model's vocabulary, which may be padded beyond the tokenizer's.

        Raises:
            ConfigError: for incompatible options.
        """

    def make_model(self, config: PretrainConfig, tokenizer: PreTrainedTokenizerFast) -> nn.Module:
        """Make or load the model that is trained.

        Raises:
            ModelError: if the checkpoint to continue cannot be used.
        """
        return load_masked_lm(config.model, tokenizer)

    def model_of_shapes(self, config: PretrainConfig, folder: Path) -> nn.Module:
        """Make the same model with random weights, from the transformers configurations in a run's folder.

        Raises:
            ModelError: if they are missing.
        """
        return MaskedLanguageModel(masked_lm_of_shapes(config.model, folder))

    def make_reader(self, config: PretrainConfig, rows: NumberedRows, tokenizer: PreTrainedTokenizerFast) -> ReadRows:
        """Make the reader that turns rows of a corpus into the objective's input.

        A reader that looks something up has a ``digest`` (str) of it: a run resumes only if it is unchanged.

        Args:
            config: The run's configuration.
            rows: Rows of the training split.
            tokenizer: The corpus's tokenizer.
        """
        return read_rows

    def check(self, config: PretrainConfig, micro_batch: int) -> None:
        """Refuse a configuration that the objective cannot be trained with.

        Args:
            config: The run's configuration.
            micro_batch: Rows per micro-batch of one process.

        Raises:
            ConfigError: naming the option.
        """
        return

    def encoders(self, model: nn.Module) -> list[Encoder]:
        """Return the encoders of a model, starting with the one that is kept."""
        return [cast(Encoder, model)]

    def masked_lm(self, model: nn.Module) -> MaskedLanguageModel:
        """Return the part of a model that predicts masked tokens, which is evaluated on held-out text."""
        return cast(MaskedLanguageModel, model)

    def save(self, model: nn.Module, tokenizer: PreTrainedTokenizerFast, folder: Path, card: str) -> None:
        """Write ``hf/``: a new folder that plain transformers can load."""
        save_hugging_face(model, tokenizer, folder, card)

    def options(self, config: ObjectiveConfig) -> Any:
        """Decode ``objective.options``; None for an objective without options of its own.

        Raises:
            ConfigError: for an unknown option, or a value of another type.
        """
        given = [one for one in config.options.split(",") if one.strip()]
        if self.Options is None:
            if given:
                raise ConfigError(f"objective.options={config.options}: '{config.name}' has none: leave it out")
            return None
        return override(self.Options(), given)
