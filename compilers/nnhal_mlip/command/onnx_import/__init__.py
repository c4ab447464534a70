"""ONNX models as flow graphs."""

from nnhal_mlip.command.onnx_import.importer import import_onnx_graph

__all__ = ["import_onnx_graph"]
