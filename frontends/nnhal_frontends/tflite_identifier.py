"""Recognition of TFLite files, apart from their reader."""

from __future__ import annotations

from nnhal_frontends.content import ModelContent

IDENTIFIER = b"TFL3"
"""What bytes 4 to 8 of every TFLite file are."""


def is_tflite(content: ModelContent) -> bool:
    """Return whether a file says that it is TFLite."""
    return content[4:8] == IDENTIFIER
