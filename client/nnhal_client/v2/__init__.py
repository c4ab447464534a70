"""Inference by the Open Inference Protocol V2: tensors travel as bytes, to a server on any host."""

from nnhal_client.v2.binding import V2Binding
from nnhal_client.v2.server import V2Model, V2Server

__all__ = ["V2Binding", "V2Model", "V2Server"]
