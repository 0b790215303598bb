"""What the sources of a job read.

backlog.py        Does what a start reads at once fit into memory?
inputs.py         Do the sources of a job read what those of their numbers have read before?
inputs_record.py  Records what they read.
topics.py         Were topics of Kafka deleted and created again?
streams.py        Which sources has a stream, with which options, and are the files of one there?
"""
