"""What a job has read, and what came of it: again, beside the job, and without any change to it.

recorded_results.py  What has a batch left in the state?
replay.py            Does the same come out of a batch when it is run again, and what does each step of it do?
capsule.py           How does one partition in one batch become a test case of its own?
"""
