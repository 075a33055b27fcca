"""Models of torch: the result of `torch.export.export` becomes a module with a graph function.

    program = torch.export.export(model.eval(), (x,))
    mod = frontend.from_exported_program(program)

The modules: `exported_program` reads the signature, `graph_import` walks the graph, `table` maps
ATen's operators to converters (in the subpackage `operators`), `sizes` and `dtypes` convert
symbolic sizes and dtypes. `codegen.torch_backend` uses them for `torch.compile`.
"""

from typing import TYPE_CHECKING

from tensorir.lazy_names import names_on_use

if TYPE_CHECKING:
    from tensorir.frontend.torch.exported_program import from_exported_program
    from tensorir.frontend.torch.table import aten, converter

__all__ = ["aten", "converter", "from_exported_program"]

__getattr__ = names_on_use(__name__)
