"""Pictures of a schedule, as SVG: the frontier, the working memory over time, the cascades."""
