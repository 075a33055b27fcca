"""The analyses behind the primitives: dependencies, kinds of blocks, bindings, regions."""
