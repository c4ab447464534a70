"""How long a program takes, by a model whose figures are in a profile."""
