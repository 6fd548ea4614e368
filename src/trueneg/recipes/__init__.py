"""Experiments that one command reproduces, from data to table."""

from __future__ import annotations

RECIPES = {"planted": "trueneg.recipes.planted:reproduce", "pilot": "trueneg.recipes.pilot:reproduce"}
"""Recipes that are no plan of commands: name to the function that ``trueneg reproduce NAME …`` calls."""
ABOUT = {
    "planted": "what to do with a false negative, where all are known",
    "pilot": "adversarial training on given adversarial examples and on revised ones",
}
"""What they show."""
