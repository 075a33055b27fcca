"""What the primitives ask about a program: dependencies, kinds of blocks, bindings, regions."""
