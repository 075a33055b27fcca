"""The options for rewriting the layout of constant weights."""

from __future__ import annotations

from enum import IntEnum

from search.postproc.rewrite_layout import RewriteLayout


class LayoutRewriteOption(IntEnum):
    """The options for the layout of parameters that are free in it, with the numbers of logs.

    `layout_free_placeholders` of an operation, or `layout_free_buffers` of a program, frees them. A
    search rewrites layouts as its task says, and so are steps of Ansor replayed. A trace says
    itself what was done.
    """

    NO_REWRITE = 0
    INSERT_TRANSFORM_STAGE = 1
    """Each call packs the parameter, which measured times include: for a program on its own."""
    REWRITE_FOR_PRE_TRANSFORMED = 2
    """The parameter is packed once, when a network is built, which measured times leave out.

    `codegen.vm_build` does that. In a function that is built alone each call packs it, too.
    """

    def postproc(self) -> RewriteLayout | None:
        """Return the postprocessor that rewrites layouts so, None where they stay."""
        if self is LayoutRewriteOption.NO_REWRITE:
            return None
        return RewriteLayout(at_build=self is LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED)
