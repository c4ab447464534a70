"""Patterns of operators that make a layer of the accelerator, and its limits for them."""
