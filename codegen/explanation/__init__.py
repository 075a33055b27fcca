"""Explanations of a lowered program: the fate of its loops, accumulators and memory accesses."""
