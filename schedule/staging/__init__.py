"""Staging: some statements use a new buffer in place of another one.

`plan` defines a copy and whether it has to be filled, `places` finds its place, `nests` builds the
loops that fill it and copy it back, and `old_values` finds the elements that a block reads before
it stores them. The primitives in `schedule.primitives` choose the buffer, the blocks and the
layout.
"""
