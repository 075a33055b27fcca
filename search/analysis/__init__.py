"""Analyses of programs for rules and postprocessors: reuse, tiling, layouts."""
