"""What a job has read, and what came of it: again, beside the job, and without any change to it.

recorded_results.py  What has a batch left in the state?
replay.py            Does the same come out of a batch when it is run again, and what does each step of it do?
moved_by.py          Why is a pane as it is, and which row has moved the watermark past it?
moving_row.py        Which row of a batch has moved the watermark?
capsule.py           How does one partition in one batch become a test case of its own?
"""
