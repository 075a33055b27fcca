"""What may be done to the layout of constant weights."""

from __future__ import annotations

from enum import IntEnum


class LayoutRewriteOption(IntEnum):
    """What may be done to the layout of parameters that are free in it, with the numbers of logs.

    A schedule of this project says itself what was done: `layout_free_buffers` of a program frees
    parameters, the postprocessor `RewriteLayout` packs them in the function, and
    `transform.SplitLayoutRewritePreproc` takes the packing out, as `codegen.vm_build` does. The
    option is kept for logs.
    """

    NO_REWRITE = 0
    INSERT_TRANSFORM_STAGE = 1
    """The function packs its parameter: for a program that stands alone."""
    REWRITE_FOR_PRE_TRANSFORMED = 2
    """The caller has packed the parameter: for a program in a network."""
