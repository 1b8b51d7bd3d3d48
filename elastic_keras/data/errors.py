"""What goes wrong with input data."""

from elastic_keras.config import ConfigError


class DataError(ConfigError):
    """Input data that a job cannot use; the message says where and why."""


class BadRecord(DataError):  # noqa: N818
    """A broken record.

    Args:
        source: The file.
        record: Number of the record in the file, from 0, header not counted.
        position: Byte of the file at which the record starts; `None` where
            that means nothing.
        reason: What is wrong with it.
    """

    def __init__(
        self, source: str, record: int, position: int | None, reason: str
    ) -> None:
        place = "" if position is None else f", byte {position}"
        super().__init__(
            f"Broken record: {reason}. Mend the file or leave such records "
            f"out with --bad_records=skip. Received: {source}, record "
            f"{record}{place}"
        )
        self.source = source
        self.record = record
        self.position = position
        self.reason = reason


class SourceChanged(DataError):  # noqa: N818
    """A file that is not any more what the job's ranges were made from."""
