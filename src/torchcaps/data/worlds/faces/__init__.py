"""Faces: eyes, nose and mouth, and other things that are made of the same parts.

>>> draw_scenes("single", 2).images.shape
torch.Size([2, 1, 64, 64])
"""

from torchcaps.data.worlds.faces.loader import draw_scenes, faces
from torchcaps.data.worlds.faces.world import FACES, WHOLES

__all__ = ["FACES", "WHOLES", "draw_scenes", "faces"]
