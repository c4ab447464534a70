"""nnhal beside other inference servers, in one run. See docs/benchmarks.md."""
