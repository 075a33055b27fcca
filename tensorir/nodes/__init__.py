"""What programs are made of: data types, expressions, statements, buffers, and constructors."""
