"""The Spark data source "pbio", in the order in which a query passes through it:

    session        a Spark that finds this package
    datasource     `PbioDataSource`, which Spark calls
    option_values  texts -> values of options
    options        every option, in one table
    parse_options  options as Spark hands them over -> `Options`

reading a batch:

    listing        paths -> files
    partitions     `k=v` folders -> columns
    outlines       files -> what is known of them without decoding: formats, places to split
    schema         formats -> those that are wanted, and their columns
    planning       files -> splits and schema
    arrow          Spark's schemas -> Arrow's
    naming         what options call a record type -> a format that has it
    request        options -> what is asked of MaxMatch
    wanted         all of these -> `Wanted`, which is all that reading needs to know
    unfilled       what nothing fills, and names and programs that do nothing
    reader         what the driver makes ready, and what a task does with it
    dispatch       rows to the reader that they match best
    reason_first   errors whose text begins with the reason, also through Spark

reading a growing folder:

    sight          a look at a file: which file object, and whether it may have changed
    digest         what was read of a file, as a digest
    remembered     many files -> few bytes
    progress       the offsets of a stream
    matching       files that were read <-> files that are there
    advance        how far one file can be read on
    follow         from one offset to the next
    stream         what Spark calls

reading channels:

    channel_place       how far channels have been read
    channel_log         which channels, from where, and what the log has of them
    channel_plan        that -> partitions, and what reading them needs to know
    channel_reader      a batch, and what a task does
    channel_subscriber  a stream under a subscriber's name
    channel_stream      what Spark calls

writing a folder:

    folders        columns -> `k=v` folders
    output         one file
    writer         whole files or none

writing to channels:

    channel_writer  tasks' files -> one commit, of a batch or of a micro-batch
"""
