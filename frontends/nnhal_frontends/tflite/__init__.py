"""The front end for TFLite: flatbuffer files of version 3."""

from nnhal_frontends.tflite.importer import import_tflite

__all__ = ["import_tflite"]
