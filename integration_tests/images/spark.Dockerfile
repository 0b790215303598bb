# Master, worker and driver are one image; `build` puts the base's tag into the next line.
FROM panekeeper/base
ENV PATH=/opt/panekeeper/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    SPARK_HOME=/opt/panekeeper/lib/python3.11/site-packages/pyspark \
    SPARK_CONF_DIR=/opt/panekeeper/conf \
    PYSPARK_PYTHON=/opt/panekeeper/bin/python \
    PANEKEEPER_CACHE=/opt/panekeeper/cache \
    SPARK_DAEMON_JAVA_OPTS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
COPY cache /opt/panekeeper/cache
COPY *.whl /tmp/
RUN pip install --quiet --no-deps --no-index --no-compile --root-user-action=ignore /tmp/*.whl && rm /tmp/*.whl
# What `spark-submit` is given by default: where to run, and the Java libraries that a driver must have from the start.
# The services share one machine and live for minutes: too short for Java's second compiler to pay.
RUN mkdir -p /opt/panekeeper/conf \
    && { echo "spark.master spark://master:7077"; \
         echo "spark.driver.extraJavaOptions $SPARK_DAEMON_JAVA_OPTS"; \
         echo "spark.executor.extraJavaOptions $SPARK_DAEMON_JAVA_OPTS"; \
         echo "spark.jars $(ls /opt/panekeeper/cache/jars/*/*.jar | paste -sd,)"; } > /opt/panekeeper/conf/spark-defaults.conf
COPY examples /opt/panekeeper/job/examples
WORKDIR /opt/panekeeper/job
# Each container would compile the packages anew.
RUN python -c "import examples.flights.kafka_main, panekeeper.cli.main, panekeeper.framework.engine.flow.processor"
