"""Models in the Open Neural Network Exchange format (https://onnx.ai).

The modules: `from_onnx` is the entrance; `model_file` reads files and data beside them, of which
`stored_weights` maps the weights; `graph_import` walks graphs node by node, `scope` has the names
of one, `known_values` what is known of its values, `function_bodies` finds functions that stand for
nodes, `node` is what a converter sees of its node and `attributes` what it is given; `registry` is
the table of converters, `schemas` what ONNX says of operators, `contents` what follows for integers
while a model is read (shapes, mostly), `dtypes` the names of dtypes, `elements` what sequences have
in common; `step_function` makes functions of the graphs that loops run; `optional_package` is the
package `onnx`. Converters are in `converters`, one module each family.
"""
