"""Masked language models on held-out text: their loss and their false negatives."""
