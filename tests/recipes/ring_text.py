"""A text of words that follow one another in a ring."""

from __future__ import annotations

RING = ["river", "the", "stone", "of", "bridge", "morning", "and", "light", "over", "winter", "village", "boats"]
RARE = ["unwalked", "unlighted", "rivers"]  # of several pieces, some of which are words by themselves
