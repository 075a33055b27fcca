"""The alternatives that sampling instructions choose from.

`domain` has the interface of a set of alternatives, and the sets that are lists; `tiles` are the
factors of a loop's extent, counted and drawn, and `knobs` the splits, orders and marks that
templates offer.
"""
