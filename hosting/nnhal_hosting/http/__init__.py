"""What every port of HTTP shares: limits of its connections, and of what a head may take."""

from nnhal_hosting.http.connections import ConnectionLimiter, ConnectionLimits, while_connected

__all__ = ["ConnectionLimiter", "ConnectionLimits", "while_connected"]
