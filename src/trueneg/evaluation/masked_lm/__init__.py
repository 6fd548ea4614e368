"""Masked language models on held-out text: loss and false negatives."""
