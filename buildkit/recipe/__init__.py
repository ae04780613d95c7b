"""Recipe files: their model, and how they are found, read and checked."""
