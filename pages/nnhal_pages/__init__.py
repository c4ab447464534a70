"""How plans and figures look: pages, tables and pictures, as text without script."""
