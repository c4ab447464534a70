"""The front end for TFLite: flatbuffer files of version 3."""

from nnhal_frontends.tflite.importer import import_tflite
from nnhal_frontends.tflite.parts import TfliteFile

__all__ = ["TfliteFile", "import_tflite"]
