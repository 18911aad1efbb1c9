"""Writing a folder of files.

write_format  the format of what is written: made of the columns, or one that is there already
folders       columns -> `k=v` folders
output        one file
overwrite     what an overwrite replaces
writer        whole files or none
"""
