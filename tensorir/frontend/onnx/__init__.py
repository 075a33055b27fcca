"""Models in the Open Neural Network Exchange format (https://onnx.ai).

The modules: `from_onnx` is the entry point; `model_file` reads files and their external data, and
`stored_weights` memory-maps their weights; `graph_import` walks graphs node by node, `scope` has
the names of a graph, `known_values` has the facts about its values, `function_bodies` has the
functions that define operators; `node` is the interface of a converter to its node, and
`attributes` reads the node's attributes; `registry` is the table of converters, `schemas` has
ONNX's definitions of operators, `contents` evaluates integers while a model is read (mostly
shapes), `dtypes` converts dtypes; `step_function` makes functions from loop bodies, `repeats` and
`limits` bound the size of the imported program. Converters are in `converters`, one module for each
family.
"""
