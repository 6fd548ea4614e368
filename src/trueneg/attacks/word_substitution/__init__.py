"""Word substitution attacks on classifiers."""
