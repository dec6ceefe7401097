"""Claims about wholes that are learned from parts in pixels."""
