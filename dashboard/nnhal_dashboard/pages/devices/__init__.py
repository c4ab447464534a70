"""Devices and the other processes: what they can do, how they fare, and what is done with them."""
