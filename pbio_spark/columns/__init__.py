"""Columns: record bytes <-> Arrow record batches, by kernels generated per format and schema.

From files to batches:

    walk            the compiled walk over the items of a file: where its records are
    chunks          a part of a file -> chunks of records in memory, whatever their formats
    planner         format x wanted schema -> plan (`numbers`: which number may become which type)
    plan            what has to be done, as values: nodes for columns, levels for places
    generate        level -> text of its kernels, fused or ready-made
    converter       `Converter`: a plan and its kernels; running it
    assemble        what kernels wrote -> Arrow arrays
    read            all of this together: parts of files -> batches of one schema, bad records by mode
    names           columns under other names, and those that a schema lacks
    explain         why a record is bad
    unfilled        columns that a format can never fill
    values          records that travel as binary values, both ways

Where a reader wants more than the fields of records:

    ways            which transforms and programs lead from a format to what is wanted
    wire_binding    E-code that reads records where they lie
    morpher         the programs of a way as one kernel
    made            columns that a program made -> batches

From batches to records:

    encode_planner  format x schema -> plan (`encode_plan`, `encode_numbers`)
    encode_generate plan -> text of the one kernel (`encode_parts`, `encode_text`)
    encoder         `Encoder`: running it
"""
