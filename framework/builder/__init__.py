"""From a streaming DataFrame to a job: `windowed(...).window(...).aggregate(...).to_delta(...).start(...)`.

joins.py     Which columns of two streams must be equal, and what are the result columns of a join?
outputs.py   Where do results go, and how does a job start? `Computation`, `DeltaJob`
places.py    How does a user name a table or a folder?
windowed.py  Which rows come from streams, into which windows, and what is computed? `windowed(...)`, `ports(...)`
"""
