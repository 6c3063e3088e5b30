"""Building, copying, exporting and installing packs."""
