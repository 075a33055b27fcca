"""The alternatives that sampling instructions choose from.

`domain` says what a set of alternatives can do, and has those that are lists; `tiles` are the
factors of a loop's extent, `knobs` the splits, orders and marks that templates offer, and
`factorization` counts and draws products.
"""
