"""Boxes of tensors of rank 4, and where their bytes lie."""
