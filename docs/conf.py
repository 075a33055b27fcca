"""Settings of Sphinx for the site; `make docs` builds it."""

from tensorir import __version__

project = "tensorir"
release = version = __version__
extensions = ["myst_nb"]
html_static_path = ["_static"]
html_theme = "furo"
html_title = f"tensorir {release}"
html_show_copyright = False
html_show_sphinx = False
default_role = "code"

# Notebooks are shown as they were executed; `make notebooks` executes them.
nb_execution_mode = "off"
nb_merge_streams = True
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

maximum_signature_line_length = 90
add_module_names = False
toc_object_entries_show_parents = "hide"
highlight_language = "none"
pygments_style = "default"
pygments_dark_style = "monokai"
