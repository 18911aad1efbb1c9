"""What streams need besides events.

stream_subscriber  the progress of a stream over many channels, under one name
eager_stream       a stream's own code at the sources
"""
