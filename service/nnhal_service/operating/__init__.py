"""Services of the framework for its operators."""
