"""Staging: some statements use a new buffer in place of another one.

`plan` defines a copy and when it has to be filled, `places` finds where it is made, `nests`
builds the loops that fill and empty it, `buffers` makes the buffer, `old_values` finds what a block
reads before anything is stored. The primitives in `schedule.primitives` say which buffer, which
blocks and which layout.
"""
