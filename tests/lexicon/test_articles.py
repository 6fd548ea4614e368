"""Which words take "an"."""

from __future__ import annotations

import pytest

from trueneg.lexicon.articles import begins_with_vowel_sound

AN = """almanac idea egg oily uncle umbrella under upper urge urban usher utter ulcer only oneiric hour hourly honest
honour honor heir heiress unable uneven unusual uninteresting unimportant unidentified unanswered unironic ignoble
FM x-ray mtv yttrium Hour Apple FBI MTV X 8 8th 11-year-old 18"""
A = """book house hotel history horse one one-sided once ones oneself European ewe eulogy unit union unique unicorn
unilateral unidirectional university unanimous use user useful usual usurper utensil utility utopia uranium urine uk
ufo ukulele uniform ubiquitous ouija yes year wife tv bbc her his House UN UNICEF NASA BBC 10 110 180th"""


@pytest.mark.parametrize("word", AN.split())
def test_an(word: str) -> None:
    assert begins_with_vowel_sound(word)


@pytest.mark.parametrize("word", [*A.split(), "", "1", "☂"])
def test_a(word: str) -> None:
    assert not begins_with_vowel_sound(word)
