"""Models of other people's packages, in nnhal beside ONNX Runtime and LiteRT; docs/zoo.md describes it."""
