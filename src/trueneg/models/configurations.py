"""Hugging Face configurations: of an architecture from our sizes, and of a generator from its discriminator's."""

from __future__ import annotations

from typing import Any

from huggingface_hub.errors import StrictDataclassError
from transformers import MODEL_FOR_MASKED_LM_MAPPING, AutoConfig, PretrainedConfig, PreTrainedTokenizerFast

from trueneg.config.options import PROJECTED, ModelConfig
from trueneg.errors import ConfigError, ModelError
from trueneg.tokenizer import special_ids


def hf_config(config: ModelConfig, tokenizer: PreTrainedTokenizerFast) -> PretrainedConfig:
    """Hugging Face's configuration of an architecture, with our sizes and the tokenizer's vocabulary.

    Raises:
        ModelError: for an architecture without a masked-LM head in transformers, and for impossible sizes.
    """
    if config.hidden_size % config.num_heads:
        raise ModelError(
            f"model.hidden_size={config.hidden_size} is not a multiple of model.num_heads={config.num_heads}"
        )
    ids = special_ids(tokenizer)
    sizes: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "hidden_size": config.hidden_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "max_position_embeddings": config.max_positions,
        "pad_token_id": ids["pad"],
        "bos_token_id": ids["start"],
        "eos_token_id": ids["end"],
        "cls_token_id": ids["start"],
        "sep_token_id": ids["end"],
    }
    try:
        made: PretrainedConfig = AutoConfig.for_model(
            config.architecture, **sizes | _own_sizes(config, ids["pad"] or 0)
        )
        set_dropout(made, config.dropout)
        set_rope(made, config)
    except (ValueError, KeyError) as error:
        raise ModelError(f"transformers knows no architecture '{config.architecture}': {_KNOWN}") from error
    except StrictDataclassError as error:
        reason = " ".join(str(error).split())
        raise ModelError(f"cannot make a '{config.architecture}' of these sizes: {reason}") from error
    if type(made) not in MODEL_FOR_MASKED_LM_MAPPING:
        raise ModelError(f"'{config.architecture}' has no masked-LM head in transformers: {_KNOWN}")
    if made.is_encoder_decoder:
        raise ModelError(f"'{config.architecture}' has a decoder, which would be trained too: take {_KNOWN}")
    return made


def generator_config(discriminator: PretrainedConfig, config: ModelConfig) -> PretrainedConfig:
    """A generator's configuration: the discriminator's, shallower and, if it has an embedding projection, narrower.

    Raises:
        ModelError: if the narrower width is not a multiple of its number of heads.
    """
    generator: PretrainedConfig = type(discriminator).from_dict(discriminator.to_dict())
    generator.num_hidden_layers = max(1, round(discriminator.num_hidden_layers * config.generator_depth))
    if getattr(generator, "layer_types", None):
        generator.layer_types = generator.layer_types[: generator.num_hidden_layers]
    if discriminator.model_type in PROJECTED:
        heads = max(1, round(discriminator.num_attention_heads * config.generator_width))
        hidden = round(discriminator.hidden_size * config.generator_width)
        if hidden % heads:
            raise ModelError(
                f"model.generator_width={config.generator_width} gives a generator of {hidden} hidden units, "
                f"which {heads} heads do not divide: choose another share"
            )
        generator.num_attention_heads, generator.hidden_size = heads, hidden
        # ELECTRA's code sets the feed-forward size to four times the hidden size.
        generator.intermediate_size = round(discriminator.intermediate_size * config.generator_width)
    return generator


_HEAD_DROPOUTS = ("classifier_dropout", "classifier_dropout_prob", "seq_classif_dropout", "qa_dropout")
"""Of heads for tasks; where an architecture has none of them, or it is None, these use the encoder's."""


def set_dropout(hf: PretrainedConfig, dropout: float, *, of_head: bool = False) -> None:
    """Set the dropout probabilities of an architecture, but not of DeBERTa's pooler; a negative one leaves them alone.

    Args:
        hf: The configuration, which is changed.
        dropout: The probability.
        of_head: Also set those of heads for tasks.
    """
    names = {
        "distilbert": ("dropout", "attention_dropout"),
        "modernbert": ("embedding_dropout", "mlp_dropout", "attention_dropout"),
    }
    if dropout >= 0:
        heads = [name for name in _HEAD_DROPOUTS if of_head and getattr(hf, name, None) is not None]
        for name in (*names.get(hf.model_type, ("hidden_dropout_prob", "attention_probs_dropout_prob")), *heads):
            setattr(hf, name, dropout)


def set_rope(hf: PretrainedConfig, config: ModelConfig) -> None:
    """Set the bases of rotary position embeddings; a base of 0 leaves the architecture's own as it is.

    Raises:
        ConfigError: for an architecture without rotary positions, or a local base without layers that have a window.
    """
    bases = {"model.rope_theta": config.rope_theta, "model.rope_theta_local": config.rope_theta_local}
    if not any(bases.values()):
        return
    found = dict(getattr(hf, "rope_parameters", None) or {})
    # One per kind of layer (ModernBERT), or one for all layers.
    by_kind = {name: found[name] for name in _KINDS_OF_LAYERS if isinstance(found.get(name), dict)}
    for option, kind in zip(bases, _KINDS_OF_LAYERS, strict=True):
        if bases[option] and not (by_kind.get(kind) if by_kind else kind == _KINDS_OF_LAYERS[0] and found):
            lacks = "layers with a window" if found else "rotary positions"
            raise ConfigError(f"{option}={bases[option]:g}: '{hf.model_type}' has no {lacks}: leave it out")
    if by_kind:
        changed = {
            kind: {**parameters, **({"rope_theta": base} if base else {})}
            for (kind, parameters), base in zip(by_kind.items(), bases.values(), strict=True)
        }
        hf.rope_parameters = {**found, **changed}
    else:
        hf.rope_parameters = {**found, "rope_theta": config.rope_theta}


_KINDS_OF_LAYERS = ("full_attention", "sliding_attention")
"""As transformers names them."""

_KNOWN = "one of bert, roberta, electra, deberta-v2, modernbert, or another that AutoModelForMaskedLM takes"


_COUNTED_FROM_PADDING = {
    *("roberta", "xlm-roberta", "camembert", "mpnet", "roberta-prelayernorm", "xlm-roberta-xl", "xmod"),
    *("data2vec-text", "esm", "ibert", "longformer"),
}
"""Architectures whose first position id is one above the padding token's."""


def _own_sizes(config: ModelConfig, pad: int) -> dict[str, Any]:
    """Options that an architecture names in its own way, or needs besides."""
    name = config.architecture
    if name == "distilbert":
        return {"hidden_dim": config.intermediate_size}
    sizes: dict[str, Any] = {"intermediate_size": config.intermediate_size}
    if name in PROJECTED:
        sizes["embedding_size"] = config.embedding_size
    if name == "deberta-v2":
        # As DeBERTa-v3 was trained: relative positions only, in logarithmic buckets.
        sizes |= {
            "relative_attention": True,
            "position_buckets": 256,
            "norm_rel_ebd": "layer_norm",
            "share_att_key": True,
            "pos_att_type": ["p2c", "c2p"],
            "position_biased_input": False,
            "type_vocab_size": 0,
        }
    if name == "mpnet" and pad != 1:
        raise ModelError(f"mpnet keeps id 1 for padding, and this tokenizer pads with {pad}: choose roberta")
    if name in _COUNTED_FROM_PADDING:
        # These count positions from one after the padding id, so they need that many more.
        sizes["max_position_embeddings"] = config.max_positions + pad + 1
    if name in ("roberta", "xlm-roberta", "camembert"):
        sizes["type_vocab_size"] = 1
    return sizes
