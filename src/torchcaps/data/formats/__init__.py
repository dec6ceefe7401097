"""File formats that data sets are published in."""
