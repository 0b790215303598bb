"""Where results go beside the Delta tables of a job: a sink of the user's own, or one of these.

foreach_batch.py  How does a function of the user get each batch of results?
kafka_sink.py     How do results become messages in a topic of Kafka?
protocol.py       What must a sink of the user's own do?
"""
