"""The far side of a wire: a device process that also listens at a TCP address, for frameworks on other hosts."""
