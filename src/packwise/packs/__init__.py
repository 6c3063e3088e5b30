"""Building packs, their manifest, and the shelf of installed ones."""
