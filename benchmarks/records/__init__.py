"""Records and files without Spark: decoding, encoding, compiling, BP5, beside libraries in C."""
