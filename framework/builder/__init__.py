"""From a streaming DataFrame to a job: `windowed(...).window(...).aggregate(...).to_delta(...).start(...)`.

inputs.py        how do streams with windows and a computation on them become a pipeline?
named_tables.py  which folders have tables that are given by name?
outputs.py       where do results go, and how does a job start? `Computation`, `DeltaJob`
places.py        how does a user name a table or a folder?
ports.py         how does one operator get the windows of several streams? `ports(...)`
windowed.py      which rows come from a stream, and into which window? `windowed(...)`
"""
