"""Wholes from parts in pixels: training and measurements on the flat worlds."""
