"""Kafka as the source of a job: where the job has arrived in its topics, and whether its messages are still there.

offsets.py    Where does a checkpoint, or a savepoint, continue in each topic?
retention.py  Which messages that it needs has the broker deleted?
"""
