"""Which lines of a module an error is about."""

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from elastic_keras.cluster.exits import WRONG_USE
from elastic_keras.config import ConfigError
from elastic_keras.worker.failures import failure
from elastic_keras.zoo.errors import UserCodeError


class Blame:
    """Puts lines of a module before what a worker would report.

    Args:
        path: The module's file.
        lines: Line of each of its names.
    """

    def __init__(self, path: str, lines: Mapping[str, int]) -> None:
        self._path = path
        self._lines = lines

    @contextlib.contextmanager
    def mentioned(self) -> Iterator[None]:
        """For what is said of the module: names the lines of its names.

        Raises:
            ConfigError: With the lines of the names that it mentions.
        """
        try:
            yield
        except ConfigError as error:
            words = re.findall(r"\w+", str(error).partition("Received:")[0])
            raise self._located(str(error), words) from error

    @contextlib.contextmanager
    def of(
        self, names: Sequence[str], spec: Callable[[], Any]
    ) -> Iterator[None]:
        """For what a worker does with the module.

        Args:
            names: Names of the module that take part.
            spec: Returns the spec of the batches, for messages.

        Raises:
            ConfigError: What a worker would report as wrong use.
            UserCodeError: The module's own exception.
        """
        try:
            yield
        except (Exception, SystemExit) as error:
            told = failure(error, first_step=True, spec=spec())
            if told["exit_code"] == WRONG_USE:
                raise self._located(told["error"], names) from error
            if isinstance(error, UserCodeError):
                raise
            raise UserCodeError(names[0], error) from error

    def _located(self, text: str, names: Iterable[str]) -> ConfigError:
        places = [
            f"{self._path}:{self._lines[name]} ({name})"
            for name in dict.fromkeys(names)
            if name in self._lines
        ]
        return ConfigError(f"{', '.join(places)}: {text}" if places else text)
