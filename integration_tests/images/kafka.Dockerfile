# A Kafka broker of one process, in KRaft mode; its topics are in /data. `build` puts the base's tag into the next line.
FROM panekeeper/base
COPY libs /opt/kafka/libs
COPY kafka.properties /opt/kafka/
ENV CLASSPATH=/opt/kafka/libs/* \
    OPTIONS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
CMD ["sh", "-c", "java $OPTIONS kafka.tools.StorageTool format --ignore-formatted -t MkU3OEVBNTcwNTJENDM2Qk -c /opt/kafka/kafka.properties && exec java $OPTIONS -Xmx256m kafka.Kafka /opt/kafka/kafka.properties"]
