"""Scrapy's FilesPipeline and ImagesPipeline with Skitter's folder of files: each content once.

ITEM_PIPELINES = {"skitter.scrapy.media.FilesPipeline": 1}
FILES_STORE = "skitter://files"
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

from scrapy.pipelines import files, images

from skitter.fetch.filestore import FileStore

if TYPE_CHECKING:
    from io import BytesIO


class ContentStore(files.FSFilesStore):
    """Under Scrapy's path, such as full/0a79….pdf, is a link to the content: files/3b/3b5d….pdf,
    which other nodes, other URLs and Skitter's own downloads may have stored before."""

    def persist_file(
        self,
        path: str | os.PathLike[str],
        buf: BytesIO,
        info: Any,
        meta: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        folder, content = Path(self.basedir), buf.getvalue()
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=place.parent, prefix=".", delete=False) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft = Path(file.name)
        draft.chmod(0o444)  # Scrapy's own store, in the same folder, would write into it
        stored = FileStore(folder).place(draft, sha256(content).hexdigest(), place.suffix)
        os.utime(stored)  # Scrapy asks again for a file that is older than FILES_EXPIRES
        os.link(stored, draft)
        draft.replace(place)
        draft.unlink(missing_ok=True)  # if it is the same file already, nothing was replaced


class FilesPipeline(files.FilesPipeline):
    """Scrapy's own, which also knows `skitter://folder`."""

    STORE_SCHEMES = files.FilesPipeline.STORE_SCHEMES | {"skitter": ContentStore}


class ImagesPipeline(images.ImagesPipeline):
    """Scrapy's own, which also knows `skitter://folder`."""

    STORE_SCHEMES = images.ImagesPipeline.STORE_SCHEMES | {"skitter": ContentStore}
