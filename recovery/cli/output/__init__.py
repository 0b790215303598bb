"""How results and errors of the command are printed.

schema.py    What `--json` prints, as JSON schemas.
failures.py  How is an error reported in one line?
streams.py   What if nobody reads what is printed, or it cannot be shown?
watch.py     How is a result shown again and again?
"""
