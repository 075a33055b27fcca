"""Staging: a new buffer stands for another one while some statements run.

`plan` says what a copy is and when it has to be filled, `places` finds where it is made, `nests`
builds the loops that fill and empty it, `buffers` makes the buffer, `old_values` finds what a block
reads before anything is stored. The primitives in `schedule.primitives` say which buffer, which
blocks and which layout.
"""
