"""Where results go beside the Delta tables of a job: a sink of the user's own, or one of these.

kafka_sink.py  How do results become messages in a topic of Kafka?
protocol.py    What must a sink of the user's own do? And one that calls a function with each batch.
"""
