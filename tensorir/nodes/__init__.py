"""The parts of programs: data types, expressions, statements, buffers, and constructors."""
