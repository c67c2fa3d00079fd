"""A book of two pages: `sphinx-build example _build` builds it."""

project = "Widgets without a kernel"
extensions = ["sphinx_anywidget"]
exclude_patterns = ["_build", "make.py"]
nb_execution_mode = "off"  # the notebooks hold their outputs; make.py executes them
html_show_search_summary = False
