"""Graphs as the flow sees them: operators, their shapes, and how to compute them."""
