"""The nodes of programs: data types, expressions, statements, buffers, and constructors."""
