"""Operators of images; the modules: `coordinates`, `grid_sample`, `resize`."""

from tensorir.topi.image.grid_sample import affine_grid, grid_sample
from tensorir.topi.image.resize import dynamic_resize, resize, resize1d, resize2d, resize3d

__all__ = [
    "affine_grid",
    "dynamic_resize",
    "grid_sample",
    "resize",
    "resize1d",
    "resize2d",
    "resize3d",
]
