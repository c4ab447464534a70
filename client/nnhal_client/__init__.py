"""nnhal_client: the client library and the ``nnhal`` command."""
