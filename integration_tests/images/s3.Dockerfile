# An S3 server on a folder: a bucket is a folder in /data.
FROM scratch
COPY versitygw /versitygw
COPY data /data
ENTRYPOINT ["/versitygw"]
CMD ["--port", ":7070", "--quiet", "posix", "/data"]
