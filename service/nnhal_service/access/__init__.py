"""Who may do what, and how much of it: listeners, TLS, tokens, roles, rates and memory, for every protocol."""

from nnhal_service.access.budget import Charge, RequestMemoryBudget
from nnhal_service.access.counts import NumberTable, SharedNumber
from nnhal_service.access.guard import Guard
from nnhal_service.access.listeners import TcpListener, require_safe
from nnhal_service.access.rates import TOO_OFTEN, ClientRates, Rate, RateLimits
from nnhal_service.access.roles import AccessRole
from nnhal_service.access.tls import Tls
from nnhal_service.access.tokens import Identity, Tokens, read_tokens

__all__ = [
    "TOO_OFTEN",
    "AccessRole",
    "Charge",
    "ClientRates",
    "Guard",
    "Identity",
    "NumberTable",
    "Rate",
    "RateLimits",
    "RequestMemoryBudget",
    "SharedNumber",
    "TcpListener",
    "Tls",
    "Tokens",
    "read_tokens",
    "require_safe",
]
