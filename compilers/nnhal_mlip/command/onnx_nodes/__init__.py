"""The user's own ONNX nodes, one module for each family of operators: what the HAL has no operation for."""
