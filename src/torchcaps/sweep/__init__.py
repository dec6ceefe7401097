"""Sweeps: a recipe with several values of its settings and several seeds, see docs/sweeps.md."""
