"""Names that a tagger took for other words: capitals within a sentence, and the words that stand among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trueneg.corruption.views.rewriting import Words
from trueneg.errors import ConfigError
from trueneg.lexicon.surface import surfaces

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_WITHIN = ",;&-–/'’"
"""Marks after which a sentence goes on."""


@dataclass(frozen=True)
class Names:
    """What the tokens of a vocabulary say of names."""

    is_capital: NDArray[np.bool_]
    """The token begins with a capital, ``[vocab]``; "I" does not count."""
    goes_on: NDArray[np.bool_]
    """What follows the token stands within the same sentence, ``[vocab]``: it is a word or a comma, say."""

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerFast) -> Names:
        """Read a vocabulary.

        Raises:
            ConfigError: for one without capitals.
        """
        words = [surface.word for surface in surfaces(tokenizer)]
        is_capital = np.array([word[:1].isupper() and word != "I" for word in words], dtype=bool)
        if not is_capital.any():
            raise ConfigError(
                "views.entities=capitals: the corpus's tokenizer tells no capitals: use views.entities=tags"
            )
        return cls(is_capital, np.array([word[-1:].isalnum() or word in set(_WITHIN) for word in words], dtype=bool))

    def among(self, input_ids: NDArray[np.int64], words: Words) -> NDArray[np.bool_]:
        """Which words are part of a name.

        A word with a capital is if it stands within a sentence, or if the word right after it is part of a name: in
        "New York Times staff" three are. In a title every word is.

        Args:
            input_ids: ``[rows, length]``.
            words: All of the rows, in order.

        Returns:
            bool ``[words]``.
        """
        line, start = words.line, words.start
        has_capital = self.is_capital[input_ids[line, start]]
        is_name = has_capital & (start > 0) & self.goes_on[input_ids[line, np.maximum(start - 1, 0)]]
        # Within a sentence a capital alone makes a name, so only a sentence's first word has to look at the next one.
        follows = (line[1:] == line[:-1]) & (start[1:] == start[:-1] + words.size[:-1])
        is_name[:-1] |= has_capital[:-1] & follows & is_name[1:]
        return is_name
