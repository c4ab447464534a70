"""Faults that a device is told to have: when they happen, what they do, and who may ask for them."""
