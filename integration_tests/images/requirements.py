"""Prints what goes into the image beside Panekeeper: its dependencies, and those of S3, Kafka and the flights."""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
extras = project["optional-dependencies"]
sys.stdout.write("\n".join([*project["dependencies"], *extras["s3"], *extras["kafka"], *extras["flights"]]))
