"""What asks a job questions, running, stopped or saved, and changes nothing.

Imports `recovery`, `framework` and `state`; only `cli` and `panekeeper` import it. Its folders import in one direction,
each only those above it:

doctor.py   Can a cluster run jobs, and if not, what is missing where?
tables/     Which rows have the tables of a job, and which batch has written them?
keys.py     Which partition is meant by a key, and which key group has it?
inspector/  What is open in a job, what does it wait for, and why?
report/     What has a job done, as a page?
replay/     What has a job read, and does the same come out of it again?
what_if/    What would a job have written with another declaration?
"""
