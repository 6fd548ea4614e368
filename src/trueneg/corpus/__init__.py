"""Text in, rows of token ids out: read it, tokenize it once, and draw any row by its number.

``sources`` reads documents, ``build`` turns them into a memory-mapped corpus on disk, ``store`` opens one,
``rows`` cuts it into model inputs, and ``permutation`` says which row comes where in which epoch;
``annotate`` writes what may stand in the place of each token, ``annotations`` reads it; ``tags`` are the words'
parts of speech. Nothing here holds a position: every row of every epoch is a pure function of (corpus, seed, position),
so training resumes anywhere at no cost. Nothing here imports torch.
"""
