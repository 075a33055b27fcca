"""The alternatives that sampling instructions choose from.

`domain` says what a set of alternatives can do, and has those that are lists; `tiles` are the
factors of a loop's extent, counted and drawn, and `knobs` the splits, orders and marks that
templates offer.
"""
