"""Stereo images of many scenes at once.

The intersections are those of the toys' ray caster. Scenes are in the camera's frame, so that both cameras
are the same in all of them; the parts of one kind of all scenes are computed together, each within a window
of rays around it. As there, only operations are used that round exactly.
"""

from __future__ import annotations

import numpy as np

from torchcaps.data.worlds.solids.world import PARTS, paint
from torchcaps.data.worlds.toys.cameras import Cameras, directions, look_from
from torchcaps.data.worlds.toys.raycast import ENTRY, Components
from torchcaps.data.worlds.toys.solid import SHAPES
from torchcaps.data.worlds.toys.surfaces import unit_normals

EYES_APART = 12.0
"""Degrees of azimuth between the two cameras, twice as many as for the toys: depth is read from it."""
SAMPLES = 2
"""Rays per pixel, along each side."""
AMBIENT = 0.75
LAMP_ELEVATION = 45.0
_CORNERS = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])


def eyes() -> Cameras:
    """The left and the right camera in the frame of the camera between them."""
    return look_from([-EYES_APART / 2, EYES_APART / 2], [0, 0], np.zeros(3))


def middle_eye() -> Cameras:
    """The camera between the two, whose frame the poses are in."""
    return look_from([0], [0], np.zeros(3))


def draw_images(
    kind: np.ndarray, pose: np.ndarray, light: np.ndarray, lamp: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draw N scenes of P parts.

    Args:
        kind: int64 `[N, P]`, -1 for none.
        pose: float64 `[N, P, 4, 4]`.
        light: azimuth of the lamp in degrees `[N]`.
        lamp: its brightness `[N]`.
        size: pixels along each side.

    Returns:
        Brightness float32 `[N, 2, size, size]`, 1 being white, and the number of rays that hit each part,
        int64 `[N, P, 2]`, for each camera.
    """
    rays = size * SAMPLES
    cameras = eyes()
    shape = (len(kind), 2, rays, rays)
    depth = np.full(shape, np.inf, np.float32)
    owner = np.full(shape, -1, np.int16)
    to_unit = _inverse_axes(kind, pose)
    for slot in range(kind.shape[1]):
        for number in range(len(PARTS)):
            scenes = np.flatnonzero(kind[:, slot] == number)
            if len(scenes):
                _cast(number, slot, scenes, pose[scenes, slot], to_unit[scenes, slot], cameras, depth, owner)
    brightness = np.zeros(shape, np.float32)
    _shade(kind, pose, to_unit, light, lamp, cameras, depth, owner, brightness)
    rows = brightness[..., 0::2, :] + brightness[..., 1::2, :]
    pixels = (rows[..., 0::2] + rows[..., 1::2]) * np.float32(1 / SAMPLES**2)
    flat = owner.reshape(len(kind), 2, -1)
    seen = np.stack([(flat == slot).sum(-1) for slot in range(kind.shape[1])], 1)
    return pixels, seen


def _inverse_axes(kind: np.ndarray, pose: np.ndarray) -> np.ndarray:
    """From the camera's frame to unit coordinates, float64 `[N, P, 3, 3]`; rotations are transposed."""
    half = np.array([part.half for part in PARTS])[kind]
    turned = pose[..., :3, :3]
    square = (turned[..., 0] * turned[..., 0]).sum(-1)[..., None, None]
    return turned.swapaxes(-1, -2) / square / half[..., None]


def _cast(
    number: int,
    slot: int,
    scenes: np.ndarray,
    pose: np.ndarray,
    to_unit: np.ndarray,
    cameras: Cameras,
    depth: np.ndarray,
    owner: np.ndarray,
) -> None:
    """Cast rays at one part of kind `number` in each of `scenes`, and keep what is nearer than before."""
    rays = depth.shape[-1]
    part = PARTS[number]
    center = pose[:, :3, 3]
    corners = _transform(pose[:, None, :3, :3], _CORNERS * np.array(part.half)) + center[:, None]
    step = 2 * cameras.half_field / rays
    for eye in range(2):
        position, right, down, forward = (
            vectors[eye] for vectors in (cameras.position, cameras.right, cameras.down, cameras.forward)
        )
        away = _dot(corners - position, forward)
        places = [_dot(corners - position, axis) / away / step + rays / 2 for axis in (down, right)]
        first = [np.floor(place.min(1)).astype(np.int64) for place in places]
        last = [np.ceil(place.max(1)).astype(np.int64) for place in places]
        window = int(min(rays, max((high - low).max() for low, high in zip(first, last)) + 1))
        row, column = (np.clip(low, 0, rays - window) for low in first)
        v, u = (
            (start[:, None] + np.arange(window) + 0.5) * step - cameras.half_field for start in (row, column)
        )
        middle = _dot(center - position, forward)[:, None]
        to_right, to_down, to_front = (_transform(to_unit, axis) for axis in (right, down, forward))
        # Rays start at the plane through the part's center, as in `cast_rays`.
        on_plane = _transform(to_unit, position + middle * forward - center)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            origin = _affine(on_plane, middle * to_right, middle * to_down, u, v)
            direction = _affine(to_front, to_right, to_down, u, v)
            entry = ENTRY[part.shape](origin, direction, part.taper) + middle.astype(np.float32)[:, :, None]
            index = (scenes * 2 + eye)[:, None, None] * rays + row[:, None, None] + np.arange(window)[:, None]
            index = index * rays + column[:, None, None] + np.arange(window)
            nearer = entry < depth.reshape(-1)[index]  # a miss is NaN or infinite and loses
        depth.reshape(-1)[index[nearer]] = entry[nearer]
        owner.reshape(-1)[index[nearer]] = slot


def _affine(
    constant: np.ndarray, per_u: np.ndarray, per_v: np.ndarray, u: np.ndarray, v: np.ndarray
) -> Components:
    """constant + u·per_u + v·per_v as x, y, z, each `[n, rows, columns]`; u and v are `[n, window]`."""
    across = (constant[:, :, None] + per_u[:, :, None] * u[:, None]).astype(np.float32)
    downwards = (per_v[:, :, None] * v[:, None]).astype(np.float32)
    x, y, z = (across[:, axis, None, :] + downwards[:, axis, :, None] for axis in range(3))
    return x, y, z


def _dot(vectors: np.ndarray, axis: np.ndarray) -> np.ndarray:
    return (vectors * axis).sum(-1)


def _transform(matrix: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Products of matrices `[..., 3, 3]` and vectors `[..., 3]`."""
    return (matrix * vectors[..., None, :]).sum(-1)


def _shade(
    kind: np.ndarray,
    pose: np.ndarray,
    to_unit: np.ndarray,
    light: np.ndarray,
    lamp: np.ndarray,
    cameras: Cameras,
    depth: np.ndarray,
    owner: np.ndarray,
    brightness: np.ndarray,
) -> None:
    """Lambert's law and a hemisphere of light from all sides, at the rays that hit a part."""
    rays = depth.shape[-1]
    hit = np.flatnonzero(owner.reshape(-1) >= 0)
    column, row = hit % rays, hit // rays % rays
    eye, scene = hit // rays**2 % 2, hit // rays**2 // 2
    slot = owner.reshape(-1)[hit]
    distance = depth.reshape(-1)[hit]
    center = cameras.pixel_centers(rays).astype(np.float32)
    position, right, down, forward = (
        vectors.astype(np.float32).T[:, eye]
        for vectors in (cameras.position, cameras.right, cameras.down, cameras.forward)
    )
    u, v = center[column], center[row]
    part = scene * kind.shape[1] + slot
    middle = pose[..., :3, 3].reshape(-1, 3).T.astype(np.float32)[:, part]
    offset = [
        position[k] + distance * (forward[k] + u * right[k] + v * down[k]) - middle[k] for k in range(3)
    ]
    matrix = to_unit.reshape(-1, 3, 3).transpose(1, 2, 0).astype(np.float32)[:, :, part]
    x, y, z = (line[0] * offset[0] + line[1] * offset[1] + line[2] * offset[2] for line in matrix)
    mine = kind.reshape(-1)[part]
    shapes = np.array([SHAPES.index(each.shape) for each in PARTS])[mine]
    taper = np.array([each.taper for each in PARTS], dtype=np.float32)[mine]
    gradient = unit_normals(x, y, z, shapes, taper)
    nx, ny, nz = (
        matrix[0, k] * gradient[0] + matrix[1, k] * gradient[1] + matrix[2, k] * gradient[2] for k in range(3)
    )
    length = np.sqrt(nx * nx + ny * ny + nz * nz)
    lx, ly, lz = directions(light.tolist(), [LAMP_ELEVATION] * len(light)).astype(np.float32).T[:, scene]
    lambert = np.maximum((nx * lx + ny * ly + nz * lz) / length, 0)
    glow = np.float32(AMBIENT) * (np.float32(0.75) + np.float32(0.25) * (nz / length))
    reflected = paint(x, y, z).astype(np.float32) * (lamp.astype(np.float32)[scene] * lambert + glow)
    brightness.reshape(-1)[hit] = reflected
