"""What packing has to know of a passage's text, read once, when it is stored."""
