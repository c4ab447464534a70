"""Validation of models and requests against the contract. A violation is INVALID_ARGUMENT and names its place."""

from nnhal.validation.dimensions import validate_dimensions
from nnhal.validation.model import validate_draft, validate_model
from nnhal.validation.request import RequestShape, validate_request

__all__ = ["RequestShape", "validate_dimensions", "validate_draft", "validate_model", "validate_request"]
