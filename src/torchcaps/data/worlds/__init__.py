"""Images drawn by this package, with the exact pose of everything in them."""
