"""Recordings of what clients ask of a device: made, and shown to people."""
