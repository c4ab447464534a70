"""nnhal compared with other inference servers in one run; docs/benchmarks.md describes it."""
