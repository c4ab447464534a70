"""docs/operations.md: the operands of every operation, for clients that have no header of NNAPI at hand."""

from nnhal_tools.operations_page.page import operations_page

__all__ = ["operations_page"]
