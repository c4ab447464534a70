"""Trying a model: its inputs as a form, its outputs, and where the time goes."""
