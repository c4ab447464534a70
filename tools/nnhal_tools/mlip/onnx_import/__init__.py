"""ONNX models as flow graphs."""

from nnhal_tools.mlip.onnx_import.importer import import_onnx_graph

__all__ = ["import_onnx_graph"]
