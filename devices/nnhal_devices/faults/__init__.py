"""Injected faults of a device: when they happen, what they do, and who may ask for them."""
