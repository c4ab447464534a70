"""null: a device that does nothing. See README.md: it is the template for new ones."""
