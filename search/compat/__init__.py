"""The interfaces of AutoTVM and Ansor, over the search of this package."""

from tensorir.lazy_names import names_on_use

__getattr__ = names_on_use(__name__)
