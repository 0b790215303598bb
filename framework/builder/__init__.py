"""From a streaming DataFrame to a job: `windowed(...).window(...).aggregate(...).to_delta(...).start(...)`.

What may be declared, step by step:

windowed.py         Which rows come from a stream, into which windows, and what is computed? `windowed(...)`
ports.py            Which streams are the ports of one operator, or of a join? `ports(...)`
outputs.py          Where do results go, and how does a job start? `Computation`, `DeltaJob`

What fits:

stream_options.py   What do the options of a stream mean, which go together, and which streams are ports of one job?
fitting_windows.py  Which window does a stream take?
result_columns.py   Which columns may results have, and how does a user write them?
joins.py            Which columns of two streams must be equal, and what are the result columns of a join?
places.py           How does a user name a table or a folder?

What follows:

computations.py     What does a job compute, for its workers?
"""
