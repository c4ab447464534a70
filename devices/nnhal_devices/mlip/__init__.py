"""Marvell's MLIP: a device with a compile flow in the open, and a simulator of its tiles."""
