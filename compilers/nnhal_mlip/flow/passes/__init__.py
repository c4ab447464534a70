"""Passes from graph to graph: simplification and layouts."""
