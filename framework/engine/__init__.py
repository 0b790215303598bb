"""How a row passes through Spark: intake, packing, the pulse, the processor, the sink, and the job that holds them.

Everything here may import pyspark; nothing outside may rely on it being importable (`framework.core` runs without).
"""
