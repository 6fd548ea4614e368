"""Tiny tokenizers of each kind that encoders have, and questions about made-up contexts."""

from __future__ import annotations

from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from trueneg.tasks.squad_reading import SquadAnswer, SquadExample

TEXT = (
    "The café in München opened in 1889, two years after the tower. It was so named by the city's own mayor: "
    '"Alt-Wien" (old Vienna)! Its owners, who came from 東京, kept 20% of it until 2001–2002; naïve or not, nobody '
    "asked where the money went, nor why the opening towers were unnamed."
)
WORDS = [*TEXT.split(), "opened", "Opening", "unnamed-tower", "x", "…", "🙂🙃", "e\u0301cole", "ﬁve"]
SPACES = [" ", " ", " ", "  ", "\n", "\t", "\u00a0"]


def _wrapped(backend: Tokenizer, first: str, second: str, **options: object) -> PreTrainedTokenizerFast:
    start, end = backend.token_to_id("[CLS]"), backend.token_to_id("[SEP]")
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair=f"{first} {second}", special_tokens=[("[CLS]", start), ("[SEP]", end)]
    )
    roles = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=backend, **roles, **options)


SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]


def wordpiece() -> PreTrainedTokenizerFast:
    """As BERT's: lower case, accents stripped, two types of tokens."""
    backend = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    backend.train_from_iterator([TEXT], trainers.WordPieceTrainer(vocab_size=150, special_tokens=SPECIAL))
    names = ["input_ids", "token_type_ids", "attention_mask"]
    return _wrapped(backend, "[CLS] $A:0 [SEP]:0", "$B:1 [SEP]:1", model_input_names=names)


def byte_pairs() -> PreTrainedTokenizerFast:
    """As RoBERTa's: tokens are of bytes and may begin with a space, two separators, no types."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=350, special_tokens=SPECIAL, initial_alphabet=alphabet)
    backend.train_from_iterator([TEXT], trainer)
    names = ["input_ids", "attention_mask"]
    return _wrapped(backend, "[CLS] $A [SEP] [SEP]", "$B [SEP]", model_input_names=names)


def unigram() -> PreTrainedTokenizerFast:
    """As of sentencepiece: a mark before each word, text normalized by NFKC."""
    backend = Tokenizer(models.Unigram())
    backend.normalizer = normalizers.NFKC()
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    backend.train_from_iterator(
        [TEXT] * 4, trainers.UnigramTrainer(vocab_size=120, special_tokens=SPECIAL, unk_token="[UNK]")
    )
    names = ["input_ids", "token_type_ids", "attention_mask"]
    return _wrapped(backend, "[CLS] $A:0 [SEP]:0", "$B:1 [SEP]:1", model_input_names=names)


TOKENIZERS = {"wordpiece": wordpiece(), "byte pairs": byte_pairs(), "unigram": unigram()}

texts = st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(SPACES)), min_size=1, max_size=60).map(
    lambda parts: "".join(word + space for word, space in parts)
)


def example(
    context: str, *answers: str, key: str = "q", question: str = "Which tower?", is_impossible: bool = False
) -> SquadExample:
    """A question whose answers are the first such texts of the context, if it has them."""
    found = (SquadAnswer(text, context.find(text) if text in context else None) for text in answers)
    return SquadExample(key, "title/0", question, context, tuple(found), is_impossible)


@st.composite
def questions(draw: st.DrawFn) -> SquadExample:
    """A question whose answer is some words of its context, anywhere in it."""
    context = draw(texts)
    starts = [at for at in range(len(context)) if not context[at].isspace() and context[at - 1 : at].strip() == ""]
    ends = [at for at in range(1, len(context) + 1) if context[at : at + 1].strip() == "" != context[at - 1].strip()]
    start = draw(st.sampled_from(starts))
    end = draw(st.sampled_from([end for end in ends if end > start]))
    question = draw(texts)[:80].strip()
    return SquadExample("q", "title/0", question, context, (SquadAnswer(context[start:end], start),))
