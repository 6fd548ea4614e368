"""What a model sees instead of the text: masked rows, as a pure function of the rows and their keys."""
