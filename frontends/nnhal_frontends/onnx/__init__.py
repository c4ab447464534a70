"""The front end for ONNX."""

from nnhal_frontends.onnx.importer import import_onnx

__all__ = ["import_onnx"]
