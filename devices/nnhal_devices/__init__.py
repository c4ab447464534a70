"""nnhal_devices: emulated accelerators, and the process around any of them."""
