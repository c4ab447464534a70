"""A client's requests to the framework and its reading of the answers, without I/O.

The blocking client and ``nnhal_client.aio`` drive this same code: they send, wait and receive, each in its own way.
"""
