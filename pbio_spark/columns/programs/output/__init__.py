"""Columns that a program wrote -> batches.

program_output  `ProgramOutput`: any column, value by value if it must be
cut             columns that the program's buffers already are
"""

from pbio_spark.columns.programs.output.program_output import ProgramOutput

__all__ = ["ProgramOutput"]
