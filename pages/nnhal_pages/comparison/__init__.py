"""Two plans beside each other: of one model, of two models, or at two times."""

from nnhal_pages.comparison.fragment import comparison, comparison_style
from nnhal_pages.comparison.pairing import OperationPair, pairs_of

__all__ = ["OperationPair", "comparison", "comparison_style", "pairs_of"]
