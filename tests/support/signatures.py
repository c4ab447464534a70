"""A TFLite file with two entry points."""

from __future__ import annotations

from tests.support.tflite_files import Signature, TfliteFile, floats


def two_signatures() -> bytes:
    """A file that adds two tensors (``serving_default``), or takes the absolute values of one (``magnitude``)."""
    file = TfliteFile()
    x = file.input("abs_x:0", floats(2, 3))
    (y,) = file.operator("ABS", [x], {"PartitionedCall:1": floats(2, 3)})
    magnitude = file.subgraph(y)
    file.signatures.append(Signature("magnitude", {"values": x}, {"absolute": y}, magnitude))
    a, b = file.input("add_a:0", floats(2, 3)), file.input("add_b:0", floats(2, 3))
    (c,) = file.operator("ADD", [a, b], {"PartitionedCall:0": floats(2, 3)}, ("AddOptions", {}))
    file.signatures.append(Signature("serving_default", {"b": b, "a": a}, {"sum": c, "same": c}))
    return file.build(c)
