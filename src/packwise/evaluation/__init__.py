"""Data sets, metrics and comparison: every figure we state comes from here."""
