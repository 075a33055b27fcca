"""What rules and postprocessors ask about a program: reuse, tiling, layouts."""
