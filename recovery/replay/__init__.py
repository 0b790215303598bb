"""What a job has read, and what came of it: again, beside the job, and without any change to it.

recorded_rows.py  Which rows has a job read, as the offsets in its checkpoint say?
"""
