"""What the sources of a job read.

backlog.py  Does what a start reads at once fit into memory?
inputs.py   Do the sources of a job read what those of their numbers have read before?
streams.py  Which sources has a stream, with which options, and are the files of one there?
"""
