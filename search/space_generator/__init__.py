"""Generators of design spaces."""

from search.space_generator.space_generator import PySpaceGenerator, SpaceGenerator

__all__ = ["PySpaceGenerator", "SpaceGenerator"]
