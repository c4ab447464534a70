"""The routes of the protocol."""
