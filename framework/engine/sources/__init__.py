"""What the sources of a job read.

streams.py    Which sources has a stream, with which options, and do its files fit into one micro-batch?
functions.py  Do the Python functions of a stream find what they need?
inputs.py     Do the sources of a job read what those of their numbers have read before?
cautions.py   What in a stream runs without an error and is seldom meant?
"""
