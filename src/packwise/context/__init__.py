"""From ranked candidates to a context that fits its token budget."""
