"""The flights on a cluster of containers that is broken while it runs. Run it with `make stack`.

__main__  the run: what is started, broken and restored, in order, and the comparison at the end
services  the containers of docker-compose.yml: start, submit, kill, download
"""
