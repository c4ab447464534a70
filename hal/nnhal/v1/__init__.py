"""The wire contract, made from proto/ by `make proto`."""
