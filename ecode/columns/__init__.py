"""Programs over batches: inputs and outputs as columns in memory, laid out as Arrow lays them out.

    column.py   `Column`: the buffers of a column; plain Python values to columns and back
    binding.py  `ColumnBinding`: input columns as text
    sink.py     `ColumnSink`: output columns as text
    layout.py   `OutputBuffers`: the buffers of an output, and the columns that they make
    batch.py    `BatchProgram`: a program compiled for columns; one call runs a batch
    run.py      one such call: the memory of the kernel, and its growth
    working.py  `WorkingMemory`: what a kernel needs besides inputs and outputs
    apart.py    one call for events with several states
    inputs.py   input columns, checked, as the buffers that a kernel reads
    state.py    static variables and the log in memory

This package knows only numpy arrays; the buffers of an Arrow array become numpy arrays without a copy.
"""

from ecode.columns.apart import loop_kernels, run_apart, runs_apart
from ecode.columns.batch import BatchProgram
from ecode.columns.binding import ColumnBinding, ColumnSite
from ecode.columns.column import Column, columns_of, values_of
from ecode.columns.run import BatchResult, OutputMemory, Run, run_together

__all__ = [
    "BatchProgram", "BatchResult", "Column", "ColumnBinding", "ColumnSite", "OutputMemory", "Run", "columns_of",
    "loop_kernels", "run_apart", "run_together", "runs_apart", "values_of",
]  # fmt: skip
