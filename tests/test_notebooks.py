"""The notebooks run and give the stored output; `make notebooks` stores the present output."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbformat import NotebookNode, read, write

from tests.test_layers import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


class KernelManager(AsyncKernelManager):
    """Starts the Python that runs this, whatever kernels are installed for others."""

    def format_kernel_cmd(self, extra_arguments: list[str] | None = None) -> list[str]:
        return [sys.executable, "-m", "ipykernel_launcher", "-f", self.connection_file, *(extra_arguments or ())]


def execute(path: Path) -> NotebookNode:
    """The notebook with what its cells show. Raises `CellExecutionError` for a cell that fails."""
    notebook = read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=None,
        kernel_manager_class=KernelManager,
        coalesce_streams=True,
        resources={"metadata": {"path": str(path.parent)}},
    )
    environment = {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable, "SPARK_CONF_DIR": str(ROOT / "conf")}
    client.execute(env={**os.environ, **environment})
    for cell in notebook.cells:
        cell.metadata = {}
        if "outputs" in cell:
            # What Spark logs is not the notebook's.
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    notebook.metadata.language_info = {"name": "python"}
    return notebook


def shown(notebook: NotebookNode) -> list[list[str]]:
    """The text that the cells show; of pictures, that there is one."""
    return [[_shown(output) for output in cell.get("outputs", [])] for cell in notebook.cells]


def _shown(output: Any) -> str:
    if output.output_type == "stream":
        return str(output.text)
    return "a picture" if "image/png" in output.data else str(output.data["text/plain"])


@pytest.mark.spark
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run_and_show_what_they_are_stored_with(path: Path) -> None:
    assert shown(execute(path)) == shown(read(path, as_version=4)), "`make notebooks` stores what they show now"


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


if __name__ == "__main__":
    for notebook in NOTEBOOKS:
        write(execute(notebook), notebook)
