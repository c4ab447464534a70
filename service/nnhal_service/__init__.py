"""nnhal_service: the framework process, which splits models over devices and runs them."""
