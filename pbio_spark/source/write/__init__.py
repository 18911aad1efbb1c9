"""Writing a folder of files.

write_format  the format to write: made from the columns, or an existing one
folders       columns -> `k=v` folders
output        one file
overwrite     what an overwrite replaces
writer        complete files or none
"""
