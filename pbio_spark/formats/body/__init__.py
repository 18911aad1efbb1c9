"""Format bodies: the bytes that describe a record type and its layout.

layouts            body <-> the layouts of its structures
struct_layout      what a body says about one structure
type_string        type string <-> type
slots              the space of a field in its structure
registration       structures as declared -> as a body stores them
layouts_to_record  layouts -> record type, refusing contradictions
opt_info           notes and transforms that travel with a body
lookup3            the hash that makes format IDs and attribute atoms
"""
