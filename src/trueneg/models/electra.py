"""A generator and a discriminator, and how they share embeddings (Clark et al. 2020; He et al. 2023)."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn
from transformers import PreTrainedModel

from trueneg.corruption.rows import Rows
from trueneg.errors import ModelError
from trueneg.models.backbone import Encoder, MaskedLanguageModel
from trueneg.models.disentangled import disentangle


class Discriminator(Encoder):
    """An encoder that predicts for each token whether it was replaced.

    Args:
        model: A Hugging Face model, whose base model is the encoder.
        head: ``[*, hidden]`` to ``[*]`` logits, such as ``ElectraForPreTraining.discriminator_predictions``.
            It may be a part of ``model``.
    """

    def __init__(self, model: PreTrainedModel, head: nn.Module) -> None:
        super().__init__(model)
        self.head = head

    def replaced_logits(self, hidden: Tensor) -> Tensor:
        """Logit of "replaced" for each token: ``[batch, length, hidden]`` to ``[batch, length]``."""
        logits: Tensor = self.head(hidden)
        return logits


class ElectraPair(nn.Module):
    """Generator and discriminator, by default with one set of embeddings.

    ELECTRA ties token, position and type embeddings and their layer norm, and ties the generator's output to
    its input. Sharing after construction would leave that output on the generator's old matrix, so it is tied
    again here. DeBERTaV3 gives the discriminator tables E_D = sg(E_G) + E_delta (``gdes``), so that none of its
    gradient reaches the generator's tables, and its own layer norm.

    Args:
        generator: Predicts masked tokens.
        discriminator: Predicts which tokens were replaced.
        sharing: How embeddings are shared: all of them, none, or gradient-disentangled.
        is_new: Whether the generator's weights are random: with ``gdes`` the discriminator's tables are then copied to
            it.

    Raises:
        ModelError: if the two are to share embeddings of different kinds or shapes.
    """

    def __init__(
        self,
        generator: MaskedLanguageModel,
        discriminator: Discriminator,
        sharing: Literal["shared", "none", "gdes"] = "shared",
        *,
        is_new: bool = False,
    ) -> None:
        super().__init__()
        self.generator = generator
        self.discriminator = discriminator
        if sharing == "none":
            return
        own = _embeddings(discriminator)
        if _shapes(_embeddings(generator)) != _shapes(own):
            raise ModelError(
                f"a {generator.model.config.model_type} generator cannot share the embeddings of this "
                f"{discriminator.model.config.model_type} discriminator: both need one architecture, tokenizer "
                f"and embedding size (leave model.generator_from out to have a fitting one made, or set "
                f"model.embedding_sharing=none)"
            )
        if sharing == "gdes":
            disentangle(own, _embeddings(generator), is_new=is_new)
        else:
            generator.model.base_model.embeddings = own
            generator.model.tie_weights()

    @property
    def embeddings(self) -> Tensor:
        """The discriminator's token embeddings, ``[vocab, width]``."""
        return self.discriminator.embeddings

    def encode(self, input_ids: Tensor, rows: Rows) -> Tensor:
        """Contextual vectors of the discriminator, which is the encoder that is exported."""
        return self.discriminator.encode(input_ids, rows)


def _embeddings(encoder: Encoder) -> nn.Module:
    module = getattr(encoder.model.base_model, "embeddings", None)
    if not isinstance(module, nn.Module):
        raise ModelError(f"the embeddings of '{encoder.model.config.model_type}' cannot be shared: use another")
    return module


def _shapes(embeddings: nn.Module) -> tuple[type, dict[str, tuple[int, ...]]]:
    return type(embeddings), {name: tuple(value.shape) for name, value in embeddings.named_parameters()}
