"""Lowering: a function for each operation, which adds its ONNX nodes to the graph; a module for each family."""
