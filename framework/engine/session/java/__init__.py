"""The Java side of a session before it runs: Spark's home, and the Java libraries.

jars.py         Where do the Java libraries of Delta, S3 and Kafka come from?
local_cache.py  Which folders are made once and kept on this machine?
spark_home.py   How do Python workers start without Spark's packed sources?
submitted.py    What has a program that spark-submit started?
"""
