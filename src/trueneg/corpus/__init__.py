"""Text corpora: read text, tokenize it once, and get any row of token ids by its number.

``sources`` reads documents, ``build`` turns them into a memory-mapped corpus on disk, ``store`` opens one,
``rows`` cuts it into model inputs, and ``permutation`` gives the order of the rows in each epoch;
``annotate`` writes the accepted substitutes of each token, ``annotations`` reads them; ``tags`` holds the words' parts
of speech. No object keeps a position: every row of every epoch is a pure function of (corpus, seed, position),
so training resumes anywhere at no cost. Nothing here imports torch.
"""
