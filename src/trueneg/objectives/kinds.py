"""What a run needs to know of an objective: its model, its rows, its defaults, and what it leaves behind."""

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
    """An objective's entry in the registry: everything that a run asks of an objective by its name.

    The defaults are those of a masked language model over plain rows, so that a subclass says only what differs.
    The first line of its docstring is what ``trueneg list objectives`` shows.
    """

    defaults: ClassVar[ObjectiveConfig]
    """What ``--objective NAME`` starts from: masking shares and the kind of prediction."""
    Options: ClassVar[type[Any] | None] = None
    """A frozen dataclass of options of its own, given as ``objective.options=key=value,key=value``."""
    needs_tags: ClassVar[bool] = False
    """Whether rows are read with the tags of their words."""
    card: ClassVar[str] = "with an objective of its own"
    """How a model was trained, in its card: "A text encoder pre-trained ..."."""
    is_baseline: ClassVar[bool] = False
    """Whether a run without correction and regularization is the papers' baseline, which its card says."""
    auto_class: ClassVar[str] = "AutoModelForMaskedLM"
    """Of transformers: what loads ``hf/`` with its head."""
    masked_lm_folder: ClassVar[str] = ""
    """Where in ``hf/`` the masked language model is; empty for ``hf/`` itself."""
    tag: ClassVar[str] = "fill-mask"
    """The hub's tag of its models."""

    @abstractmethod
    def make_objective(
        self, config: ObjectiveConfig, tokenizer: PreTrainedTokenizerFast, vocab_size: int
    ) -> Objective[Any, Any]:
        """Make the objective that a configuration describes.

        Args:
            config: Masking, correction, regularization and what else it reads.
            tokenizer: The corpus's.
            vocab_size: Entries of the model's vocabulary, which may be padded beyond the tokenizer's.

        Raises:
            ConfigError: for options that do not go together.
        """

    def make_model(self, config: PretrainConfig, tokenizer: PreTrainedTokenizerFast) -> nn.Module:
        """Make or load the model that is trained.

        Raises:
            ModelError: if the checkpoint to continue cannot be used.
        """
        return load_masked_lm(config.model, tokenizer)

    def model_of_shapes(self, config: PretrainConfig, folder: Path) -> nn.Module:
        """Make the same model with random weights, from the configurations of transformers in a run's folder.

        Raises:
            ModelError: if they are not there.
        """
        return MaskedLanguageModel(masked_lm_of_shapes(config.model, folder))

    def make_reader(self, config: PretrainConfig, rows: NumberedRows, tokenizer: PreTrainedTokenizerFast) -> ReadRows:
        """Make what turns rows of a corpus into what the objective is given.

        A reader that looks something up has a ``digest`` (str) of it: a run resumes only under the same.

        Args:
            config: The run's.
            rows: Of the training split.
            tokenizer: The corpus's.
        """
        return read_rows

    def check(self, config: PretrainConfig, micro_batch: int) -> None:
        """Refuse what the objective cannot be trained on.

        Args:
            config: The run's.
            micro_batch: Rows of a micro-batch of one process.

        Raises:
            ConfigError: naming the option.
        """
        return

    def encoders(self, model: nn.Module) -> list[Encoder]:
        """Return the encoders of a model, the one that is kept first."""
        return [cast(Encoder, model)]

    def masked_lm(self, model: nn.Module) -> MaskedLanguageModel:
        """Return the part of a model that predicts masked tokens, which is evaluated on held-out text."""
        return cast(MaskedLanguageModel, model)

    def save(self, model: nn.Module, tokenizer: PreTrainedTokenizerFast, folder: Path, card: str) -> None:
        """Write ``hf/``: a new folder that stock transformers loads."""
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
