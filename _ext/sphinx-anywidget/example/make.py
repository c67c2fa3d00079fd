"""Execute the notebooks of this book, and store the state of their widgets."""

from pathlib import Path

import nbformat
from nbclient import NotebookClient

for path in sorted(Path(__file__).parent.glob("*.ipynb")):
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, store_widget_state=True, record_timing=False).execute()
    nbformat.write(notebook, path)
