"""What is wrong with a snapshot."""

from elastic_keras.config import ConfigError


class SnapshotError(ConfigError):
    """There is no snapshot, or its files are not what was written."""
