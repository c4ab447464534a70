"""What pages have in common: their colours, their style, their tables. No script, and nothing loaded from elsewhere."""

from nnhal_tools.pages.document import document, palette, style
from nnhal_tools.pages.tables import short_name, stacking_table, table

__all__ = ["document", "palette", "short_name", "stacking_table", "style", "table"]
