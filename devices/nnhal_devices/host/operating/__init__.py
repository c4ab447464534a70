"""Services of a device for its operators."""
