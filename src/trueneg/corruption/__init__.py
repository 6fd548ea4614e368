"""A model's input in place of the text: masked rows, as a pure function of the rows and their keys."""
