"""A device process that speaks the wire by itself, from proto/ and docs/ alone: with gRPC and the generated messages,
without nnhal's hosting and devices. It adds and clips vectors of float32, and does wrong what a test tells it to.

``process`` starts it; the other modules are the device.
"""
