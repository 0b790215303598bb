"""The numbers of running jobs, for monitoring systems. Optional: the extras `metrics` and `prometheus`.

instruments.py  Which metrics does a job have, and where do their values come from?
endpoint.py     How does Prometheus read them?
"""
