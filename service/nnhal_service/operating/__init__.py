"""What the framework tells its operators, and does for them."""
