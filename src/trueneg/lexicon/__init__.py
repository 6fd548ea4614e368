"""Words: WordNet, what vocabulary entries look like as text, and the lookup table of synonym tokens.

Nothing in this package imports torch.
"""
