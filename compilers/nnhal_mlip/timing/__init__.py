"""Time of a program, by a model whose figures are in a profile."""
