"""Exports a trained model: everything, or nothing."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from elastic_keras.config import ConfigError, JobConfig
from elastic_keras.exports import report
from elastic_keras.exports.destination import new_folder, read_formats
from elastic_keras.exports.embeddings import write_embeddings
from elastic_keras.exports.keras_model import write_keras
from elastic_keras.exports.saved_model import write_saved_model
from elastic_keras.exports.trained_model import restore
from elastic_keras.snapshots.snapshot import Snapshot
from elastic_keras.zoo.errors import UserCodeError, has_users_frame


def export(snapshot: Snapshot, config: JobConfig) -> dict[str, Any]:
    """Writes an export.

    Args:
        snapshot: What is exported.
        config: Where its module is, `output` and `formats`.

    Returns:
        What export.json says.

    Raises:
        ConfigError: It cannot be written, or the module does not fit.
        SnapshotError: The snapshot cannot be read.
        UserCodeError: The module's own code raised.
    """
    formats = read_formats(config.output.formats)
    notes: list[str] = []
    written: dict[str, Any] = {}
    with new_folder(config.output.output) as folder:
        if "embeddings" in formats:
            written["embeddings"] = write_embeddings(snapshot, folder)
        if set(formats) & {"keras", "saved_model"}:
            trained = restore(snapshot, config)
            if "saved_model" in formats:
                with _users_errors():
                    told = write_saved_model(trained, folder)
                written["saved_model"] = told
            if "keras" in formats:
                # Last: it gives the model its tables back.
                with _users_errors():
                    made = write_keras(
                        trained, folder, limit_mb=config.output.keras_limit_mb
                    )
                notes += made.notes
                if made.written:
                    written["keras"] = {"needs": made.needs}
        said = report.make_report(snapshot, written, notes, config)
        (folder / report.FILE).write_text(json.dumps(said, indent=1))
    return said


@contextlib.contextmanager
def _users_errors() -> Iterator[None]:
    """Makes `UserCodeError` of what the model's own code raises."""
    try:
        yield
    except (ConfigError, UserCodeError):
        raise
    except Exception as error:
        if has_users_frame(error):
            raise UserCodeError("the model", error) from error
        raise
