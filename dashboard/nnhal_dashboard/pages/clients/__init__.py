"""Clients whose calls were refused."""
