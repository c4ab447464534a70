"""Two plans of a model beside each other."""

from nnhal_pages.comparison.fragment import comparison, comparison_style
from nnhal_pages.comparison.pairing import OperationPair, pairs_of

__all__ = ["OperationPair", "comparison", "comparison_style", "pairs_of"]
