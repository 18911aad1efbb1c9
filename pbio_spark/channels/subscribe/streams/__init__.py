"""What streams need beyond the events.

stream_subscriber  how far a stream over many channels has come, under one name
eager_stream       code of a stream's own at the sources
"""
