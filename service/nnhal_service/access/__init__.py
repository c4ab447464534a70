"""Who may do what, and how much of it: listeners, TLS, tokens, roles, rates and memory, whatever the protocol."""

from nnhal_service.access.budget import Charge, MemoryBudget
from nnhal_service.access.guard import Guard
from nnhal_service.access.listeners import Listener, require_safe
from nnhal_service.access.rates import TOO_OFTEN, Rate, RateLimits
from nnhal_service.access.roles import Role
from nnhal_service.access.tls import Tls
from nnhal_service.access.tokens import Identity, Tokens, read_tokens

__all__ = [
    "TOO_OFTEN",
    "Charge",
    "Guard",
    "Identity",
    "Listener",
    "MemoryBudget",
    "Rate",
    "RateLimits",
    "Role",
    "Tls",
    "Tokens",
    "read_tokens",
    "require_safe",
]
