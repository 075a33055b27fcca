"""What became of a program: its loops, accumulators and memory accesses after lowering."""
