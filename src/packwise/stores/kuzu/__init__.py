"""Kuzu as a store: ``kuzu:PATH``, and the packs of the earlier system."""
