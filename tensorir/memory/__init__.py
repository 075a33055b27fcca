"""What programs read and write: regions of blocks, parameters, empty reductions, layouts."""
