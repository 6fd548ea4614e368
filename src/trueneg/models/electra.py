"""A generator and a discriminator that share their embeddings (Clark et al. 2020)."""

from __future__ import annotations

from torch import Tensor, nn
from transformers import PreTrainedModel

from trueneg.corruption.masking import Rows
from trueneg.errors import ModelError
from trueneg.models.backbone import Encoder, MaskedLanguageModel


class Discriminator(Encoder):
    """An encoder that says for each token whether it was replaced.

    Args:
        model: A Hugging Face model; its base model encodes.
        head: ``[*, hidden]`` to ``[*]`` logits, such as ``ElectraForPreTraining.discriminator_predictions``.
            It stays a part of ``model`` where it is one.
    """

    def __init__(self, model: PreTrainedModel, head: nn.Module) -> None:
        super().__init__(model)
        self.head = head

    def replaced_logits(self, hidden: Tensor) -> Tensor:
        """Logit of "replaced" for each token: ``[batch, length, hidden]`` to ``[batch, length]``."""
        logits: Tensor = self.head(hidden)
        return logits


class ElectraPair(nn.Module):
    """Generator and discriminator with one set of embeddings.

    ELECTRA ties token, position and type embeddings and their layer norm, and ties the generator's output to
    its input. Sharing after construction would leave that output on the generator's old matrix, so it is tied
    again here.

    Raises:
        ModelError: if the two have embeddings of different shapes.
    """

    def __init__(self, generator: MaskedLanguageModel, discriminator: Discriminator) -> None:
        super().__init__()
        self.generator = generator
        self.discriminator = discriminator
        ours, theirs = generator.embeddings.shape, discriminator.embeddings.shape
        if ours != theirs:
            raise ModelError(
                f"generator and discriminator cannot share embeddings of {tuple(ours)} and {tuple(theirs)}: "
                f"use the same tokenizer and embedding size, or leave model.generator_from out"
            )
        generator.model.base_model.embeddings = discriminator.model.base_model.embeddings
        generator.model.tie_weights()

    @property
    def embeddings(self) -> Tensor:
        """The shared token embeddings, ``[vocab, width]``."""
        return self.discriminator.embeddings

    def encode(self, input_ids: Tensor, rows: Rows) -> Tensor:
        """Contextual vectors of the discriminator, which is the encoder that is kept."""
        return self.discriminator.encode(input_ids, rows)
