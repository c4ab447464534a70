"""Places of the nodes and lines of a directed graph, in layers from the top down."""

from nnhal_pages.layout.layered import layered
from nnhal_pages.layout.newspaper import in_columns
from nnhal_pages.layout.shapes import GraphLayout, LayoutLink, LineBundle, NodeShape

__all__ = ["GraphLayout", "LayoutLink", "LineBundle", "NodeShape", "in_columns", "layered"]
