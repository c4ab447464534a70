"""Benchmarks: ratios against a named floor or peer, measured in one run."""
