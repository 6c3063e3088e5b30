"""Kuzu as a store: ``kuzu:PATH``, and packs of agent-kgpacks."""
