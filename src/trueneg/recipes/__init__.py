"""Experiments that one command reproduces, from data to table."""

from __future__ import annotations

RECIPES = {"planted": "trueneg.recipes.planted:reproduce", "pilot": "trueneg.recipes.pilot:reproduce"}
"""Name to the function that ``trueneg reproduce NAME …`` calls."""
