"""Small files of a checkpoint that were cut short, as by a power cut: which of them can be repaired, and how.

finding.py    What was found about one file: what is wrong, what can be done, and why that is safe.
own_files.py  The files of Panekeeper.
prepared.py   Of them: what was recorded of the last batch.
logs.py       The files of Spark: offsets, commits, sources, metadata; and the control stream.
strays.py     Offsets that no run of the job can have written.
checksums.py  Files that do not agree with Hadoop's checksums of them.
repair.py     Does what is safe.
"""
