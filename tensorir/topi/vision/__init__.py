"""Operators of object detection; the modules: `roi_align`."""

from tensorir.topi.vision.roi_align import roi_align

__all__ = ["roi_align"]
