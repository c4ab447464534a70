"""Models of other people's packages, in nnhal beside ONNX Runtime and LiteRT; docs/benchmarks.md describes it."""
