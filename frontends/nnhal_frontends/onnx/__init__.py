"""The front end for ONNX."""

from nnhal_frontends.onnx.importer import import_onnx, state_outputs

__all__ = ["import_onnx", "state_outputs"]
