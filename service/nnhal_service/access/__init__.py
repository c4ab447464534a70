"""Permission and limits of a call: the guard of every V2 server, the roles that calls need, rates and memory."""

from nnhal_service.access.budget import FREE_COPIES, Charge, RequestMemoryBudget
from nnhal_service.access.counts import NumberTable
from nnhal_service.access.guard import Guard
from nnhal_service.access.rates import THIS_HOST, TOO_OFTEN, ClientRates, Rate, RateLimits, user_client

__all__ = [
    "FREE_COPIES",
    "THIS_HOST",
    "TOO_OFTEN",
    "Charge",
    "ClientRates",
    "Guard",
    "NumberTable",
    "Rate",
    "RateLimits",
    "RequestMemoryBudget",
    "user_client",
]
