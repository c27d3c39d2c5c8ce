"""Models of the files folder: what channels on other machines send and fetch."""

from tinyagi.api.base import Ok


class FileStored(Ok):
    """The file is stored durably; name its path in the `files` of a message."""

    path: str
    size: int
