"""What a device tells its operators, and does for them."""
