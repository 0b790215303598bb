"""What breaks the jobs of a drill, and what shows that a fault hit them.

armed.py         At which points of a batch a fault is triggered in this process
barrier.py       When a fault is triggered: once all jobs of a process are at its point, or at the first job
damage.py        How state files are damaged and disks are filled
defects.py       How our own code is made defective on purpose, to test that drills find it
evidence.py      Which jobs a kill has hit, according to their checkpoints
faulty_s3.py     How an S3 store fails or responds slowly
kill.py          How Python workers and executors are found and killed
maintenance.py   How tables are compacted, vacuumed and altered, and what shows that they were
pause.py         How a program is paused, and its leases expire
volumes.py       How tables or a checkpoint go missing, as if their volume was not mounted
"""
