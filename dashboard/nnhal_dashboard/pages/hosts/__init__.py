"""All hosts: what each does, and all together."""
