"""How different two colors look, also to eyes that miss one kind of cone."""

from __future__ import annotations

import numpy as np

# Machado, Oliveira, Fernandes 2009, severity 1: what eyes without red, green or blue cones see.
EYES = {
    "normal": np.eye(3),
    "protan": [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]],
    "deutan": [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]],
    "tritan": [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]],
}


def color_difference(one: str, two: str, eyes: str = "normal") -> float:
    """ΔE (CIE 1976) of two colors such as "#1f6fb4"."""
    seen = [_lab(_linear(color) @ np.array(EYES[eyes]).T) for color in (one, two)]
    return float(np.linalg.norm(seen[0] - seen[1]))


def _linear(color: str) -> np.ndarray:
    part = np.array([int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


def _lab(rgb: np.ndarray) -> np.ndarray:
    """CIELAB of linear RGB."""
    matrix = np.array([[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]])
    xyz = np.clip(rgb, 0, 1) @ matrix.T / np.array([0.95047, 1, 1.08883])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])
