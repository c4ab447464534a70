"""Models of the HAL as graphs of the compile flow, one module for each family of operations."""
