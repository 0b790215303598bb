"""Files under a prefix of an S3 bucket. An object is there whole or not at all; S3 has no folders and no rename."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from panekeeper.recovery.errors import ArchiveError, SavepointRefused
from panekeeper.recovery.storage.archive import ByteSink
from panekeeper.recovery.storage.parallel import map_parallel
from panekeeper.recovery.storage.s3_bucket import MISSING, Bucket, code_of
from panekeeper.recovery.storage.s3_options import S3Options
from panekeeper.state.checkpoint.folder import CheckpointFolder, spark_url

_ALREADY_EXISTS = {"412", "PreconditionFailed", "ConditionalRequestConflict"}
_MULTIPART_COPY_SIZE = 64 * 1024 * 1024
_MAX_KEYS_OF_A_DELETE = 1000  # S3 deletes no more in one call


class S3Files(CheckpointFolder):
    """The `Files` under a prefix of a bucket.

    Args:
        bucket: which one.
        prefix: what the keys begin with, without the last slash; empty for the whole bucket.
        shown: how messages name it; None: by its URL.
    """

    def __init__(self, bucket: Bucket, prefix: str, shown: str | None = None) -> None:
        self._bucket = bucket
        self._shown = shown
        self._folder = prefix.strip("/")
        self._prefix = f"{self._folder}/" if self._folder else ""

    @staticmethod
    def at(place: str, options: S3Options) -> S3Files:
        """Return the files at `s3://bucket/prefix` or `s3a://bucket/prefix`.

        Raises:
            ArchiveError: the URL names no bucket, or boto3 is not installed.
        """
        bucket, _, prefix = place.partition("://")[2].partition("/")
        return S3Files(Bucket(bucket, options), prefix)

    @property
    def location(self) -> str:
        """The bucket and prefix, as a URL."""
        return f"s3://{self._bucket.name}/{self._folder}".rstrip("/")

    @property
    def root(self) -> str:
        """The folder, as a message names it: of an epoch, the checkpoint."""
        return self._shown or self.place

    @property
    def place(self) -> str:
        """The same URL with the scheme that Spark needs, s3a."""
        return spark_url(self.location)

    @property
    def name(self) -> str:
        """The last part of the prefix."""
        return self._folder.rpartition("/")[2]

    def parent(self) -> S3Files:
        """Return the folder that contains this one.

        Raises:
            SavepointRefused: this is a whole bucket.
        """
        if not self._folder:
            raise SavepointRefused(
                f"{self.root} is a whole bucket, and nothing can be written beside it; "
                f"name a folder in it: {self.root}/..."
            )
        return S3Files(self._bucket, self._folder.rpartition("/")[0])

    def child(self, name: str) -> S3Files:
        """Return a folder in this one."""
        return S3Files(self._bucket, self._prefix + name)

    def part(self, name: str) -> S3Files:
        """Return a folder in this one that messages call by the name of this one."""
        return S3Files(self._bucket, self._prefix + name, self.root)

    def folders(self) -> list[str]:
        """Return the names of the folders in this one, sorted, without hidden ones."""
        pages = self._pages(Prefix=self._prefix, Delimiter="/")
        found = [one["Prefix"][len(self._prefix) : -1] for page in pages for one in page.get("CommonPrefixes", ())]
        return sorted(name for name in found if name and not name.startswith("."))

    def resolved(self) -> S3Files:
        """Return this folder: S3 has no links."""
        return self

    def is_mount_point(self) -> bool:
        """Return False: S3 has no disks."""
        return False

    def contains(self, location: str) -> bool:
        """Return whether a location is this prefix or lies under it."""
        return f"{location}/".startswith(f"{self.location}/")

    def put_file(self, name: str, path: Path) -> None:
        """Store a copy of a local file, in parts if it is large."""
        with self._client() as client:
            client.upload_file(
                str(path),
                self._bucket.name,
                self._key(name),
                ExtraArgs=self._bucket.encryption(),
                Config=self._bucket.transfer(path.stat().st_size),
            )

    def put_bytes(self, name: str, data: bytes) -> None:
        """Store a small file."""
        with self._client() as client:
            self._put(client, name, data)

    def put_new(self, name: str, data: bytes) -> None:
        """Store a small file under a name that is free.

        Raises:
            FileExistsError: a file of that name is there.
        """
        from botocore.exceptions import ClientError

        with self._client() as client:
            try:
                self._put(client, name, data, IfNoneMatch="*")
            except ClientError as error:
                if code_of(error) in _ALREADY_EXISTS:
                    raise FileExistsError(f"{name} in {self.root} is already there") from None
                raise

    def write(self, name: str, content: bytes, *, replace: bool = False) -> None:
        """Write a small file. Raises `FileExistsError` if it is there, unless `replace`."""
        (self.put_bytes if replace else self.put_new)(name, content)

    def swap(self, name: str, old: bytes, new: bytes) -> None:
        """Replace a small file if its content is still the old one.

        Raises:
            FileExistsError: it is another.
        """
        from botocore.exceptions import ClientError

        with self._client() as client:
            found = client.get_object(Bucket=self._bucket.name, Key=self._key(name))
            if self._bucket.content(found) == old:
                try:
                    self._put(client, name, new, IfMatch=found["ETag"])
                except ClientError as error:
                    if code_of(error) not in _ALREADY_EXISTS:
                        raise
                else:
                    return
            if self.read(name) != new:  # else the store has repeated a request whose response was lost
                raise FileExistsError(f"{name} in {self.root} was replaced meanwhile")

    def require_within(self, name: str) -> None:
        """Return: S3 has no links."""

    @contextmanager
    def open_new(self, name: str) -> Iterator[BinaryIO]:
        """Open a file for writing; it is stored when the block ends without an error."""
        with tempfile.NamedTemporaryFile(prefix="panekeeper-") as written:
            yield written  # type: ignore[misc] # a wrapper with all methods of a file
            written.flush()
            self.put_file(name, Path(written.name))

    def get(self, name: str, into: ByteSink) -> None:
        """Write the content of a file into a sink.

        Raises:
            FileNotFoundError: there is no file of that name.
        """
        with self._client() as client, self._not_found_as_file_error(name):
            client.download_fileobj(
                self._bucket.name, self._key(name), _UnseekableSink(into), Config=self._bucket.transfer()
            )

    def read(self, name: str) -> bytes:
        """Return the content of a small file.

        Raises:
            FileNotFoundError: there is no file of that name.
        """
        with self._client() as client, self._not_found_as_file_error(name):
            return self._bucket.content(client.get_object(Bucket=self._bucket.name, Key=self._key(name)))

    @contextmanager
    def local_copy(self, name: str) -> Iterator[Path]:
        """Provide a copy on this host while the block lasts.

        Raises:
            FileNotFoundError: there is no file of that name.
        """
        with tempfile.NamedTemporaryFile(prefix="panekeeper-") as copy:
            self.get(name, copy)
            copy.flush()
            yield Path(copy.name)

    def sizes(self, prefix: str = "") -> dict[str, int]:
        """Return name -> size in bytes of the files whose name begins with `prefix`."""
        found = {name: size for name, size in self._listed(prefix) if name and not name.endswith("/")}
        return dict(sorted(found.items()))

    def exists(self, name: str = "") -> bool:
        """Return whether there is a file or folder of that name."""
        from botocore.exceptions import ClientError

        key = self._key(name).rstrip("/")
        with self._client() as client:
            if name:
                try:
                    self._bucket.checked(client.head_object(Bucket=self._bucket.name, Key=key), "ETag")
                except ClientError as error:
                    if code_of(error) not in MISSING:
                        raise
                else:
                    return True
            below = client.list_objects_v2(Bucket=self._bucket.name, Prefix=f"{key}/" if key else "", MaxKeys=1)
            return "Contents" in self._bucket.checked(below, "Name")

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted, without hidden ones; empty if the folder is not there."""
        top, found = self._key(f"{folder}/" if folder else ""), []
        for page in self._pages(Prefix=top, Delimiter="/"):
            keys = [one["Key"] for one in page.get("Contents", ())]
            keys += [one["Prefix"].rstrip("/") for one in page.get("CommonPrefixes", ())]
            found += [key[len(top) :] for key in keys]
        return sorted(name for name in found if name and not name.startswith("."))

    def remove(self, name: str) -> None:
        """Remove a file; nothing happens if there is none."""
        with self._client() as client:
            client.delete_object(Bucket=self._bucket.name, Key=self._key(name))

    def clear(self) -> None:
        """Remove the folder and all in it; nothing happens if it is not there."""
        self._remove_all(name for name, _ in self._listed())

    def move_to(self, target: S3Files, before_change: Callable[[], None]) -> None:
        """Copy all objects but the markers of folders to `target` within S3, then remove them here.

        Nothing is removed before all is copied: after a kill at any point, the same call completes it.
        """
        found = dict(self._listed())
        files = [name for name in found if name and not name.endswith("/")]
        list(map_parallel(lambda name: self._copy(name, target, found[name]), files))
        self._remove_all(found, before_change)

    def _copy(self, name: str, target: S3Files, size: int) -> None:
        source, key = {"Bucket": self._bucket.name, "Key": self._key(name)}, target._key(name)
        place, encryption = target._bucket.name, self._bucket.encryption()
        with self._client() as client:
            if size < _MULTIPART_COPY_SIZE:  # one call less than client.copy, which reads the size of the source first
                client.copy_object(CopySource=source, Bucket=place, Key=key, **encryption)
            else:
                client.copy(source, place, key, ExtraArgs=encryption, Config=self._bucket.transfer(size))

    def _remove_all(self, names: Iterable[str], before_change: Callable[[], None] = lambda: None) -> None:
        keys = sorted(map(self._key, names), reverse=True)  # the marker of a folder after what is in it
        with self._client() as client:
            for first in range(0, len(keys), _MAX_KEYS_OF_A_DELETE):
                some = [{"Key": key} for key in keys[first : first + _MAX_KEYS_OF_A_DELETE]]
                before_change()
                response = client.delete_objects(Bucket=self._bucket.name, Delete={"Objects": some, "Quiet": True})
                for error in response.get("Errors", ()):
                    raise ArchiveError(
                        f"{self.location} cannot be used: S3 refuses to delete objects ({error['Code']})"
                    )

    def _put(self, client: Any, name: str, data: bytes, **conditions: str) -> None:
        conditions |= self._bucket.encryption()
        client.put_object(Bucket=self._bucket.name, Key=self._key(name), Body=data, **conditions)

    def _listed(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Yield name and size of each object, also of the markers that Hadoop writes for folders."""
        for page in self._pages(Prefix=self._key(prefix)):
            for one in page.get("Contents", ()):
                yield one["Key"][len(self._prefix) :], one["Size"]

    def _pages(self, **arguments: str) -> Iterator[dict[str, Any]]:
        with self._client() as client:
            for page in client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket.name, **arguments):
                yield self._bucket.checked(page, "Name")

    def _key(self, name: str) -> str:
        return self._prefix + name

    def _client(self) -> Any:
        return self._bucket.client_for(self.location)

    @contextmanager
    def _not_found_as_file_error(self, name: str) -> Iterator[None]:
        """Raise `FileNotFoundError` for an object that is not there."""
        from botocore.exceptions import ClientError

        try:
            yield
        except ClientError as error:
            if code_of(error) not in MISSING:
                raise
            raise FileNotFoundError(2, "no such object", f"{self.location}/{name}") from None


class _UnseekableSink:
    """A sink without `seek`, so that boto3 writes the parts of an object in their order."""

    def __init__(self, sink: ByteSink) -> None:
        self.write: Callable[[bytes], object] = sink.write
