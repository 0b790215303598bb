"""What the sources of a job read.

streams.py  Which sources has a stream, with which options, and do its files fit into one micro-batch?
inputs.py   Do the sources of a job read what those of their numbers have read before?
topics.py   Were topics of Kafka deleted and created again?
"""
