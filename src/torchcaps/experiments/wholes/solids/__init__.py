"""Wholes made of solids: parts with 4×4 poses from stereo images, and wholes learned from the front."""
