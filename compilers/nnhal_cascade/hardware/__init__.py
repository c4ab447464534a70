"""Accelerators, and the memories around them."""
