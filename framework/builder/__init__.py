"""From a streaming DataFrame to a job: `windowed(...).window(...).aggregate(...).to_delta(...).start(...)`.

inputs.py    From inputs and what is to be computed from them to a pipeline: the middle of every declaration
outputs.py   Where results go: the last two steps of a declaration, from what is computed to a running job
ports.py     `ports(...)`: one operator over the windows of several streams, its input ports
windowed.py  `windowed(...)`: from a streaming DataFrame to a running job, one declaration after the other
"""
