"""null: a device that supports no operation. It is the template for new ones: see README.md."""
