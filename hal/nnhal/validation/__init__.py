"""Whether models and requests are what the contract says. Every violation is INVALID_ARGUMENT with its place named."""

from nnhal.validation.model import validate_model
from nnhal.validation.request import RequestShape, validate_request

__all__ = ["RequestShape", "validate_model", "validate_request"]
