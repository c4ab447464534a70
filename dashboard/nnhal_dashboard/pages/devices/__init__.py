"""Devices and the other processes: what they can do, their states, and what is done with them."""
