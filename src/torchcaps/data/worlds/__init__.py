"""Data sets that are drawn rather than photographed, with the exact pose of everything in each image."""
