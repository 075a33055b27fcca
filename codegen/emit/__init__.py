"""From lowered programs to LLVM IR as text, and from that to machine code."""
