"""CSV files: fields may be quoted and then hold line breaks."""

import csv
import io

import numpy as np

from elastic_keras.data.formats import Records, make_records
from elastic_keras.data.lines import LineFormat, count_between

MAX_RECORD_BYTES = 16 << 20
_COMMA, _QUOTE, _NEWLINE, _RETURN = b',"\n\r'


class CsvFormat(LineFormat):
    """Reads what Python's csv module reads in its strict mode.

    A quote opens only at the beginning of a field, is doubled inside, and
    must close right before a comma or the end of the record. A record that
    breaks this, or has quotes and more than `max_record_bytes`, is broken;
    it then ends at its first line break, so that a stray quote costs a line.

    Args:
        max_record_bytes: Length from which a quote is taken as stray.
    """

    def __init__(self, max_record_bytes: int = MAX_RECORD_BYTES) -> None:
        super().__init__(b",")
        self._max_record_bytes = max_record_bytes

    def split(self, data: bytes, *, final: bool = True) -> Records:
        """Finds the records of a piece; see `RecordFormat.split`."""
        if b'"' not in data:
            return super().split(data, final=final)
        array = np.frombuffer(data, np.uint8)
        quotes = np.flatnonzero(array == _QUOTE)
        if _alternate(array, quotes, final):
            breaks = np.flatnonzero(array == _NEWLINE)
            breaks = breaks[np.searchsorted(quotes, breaks) % 2 == 0]
            records = self.cut(array, breaks, final)
            if self._short(records, len(data)):
                return records
        return self._walk(data, final)

    def columns(self, data: bytes, records: Records) -> np.ndarray | None:
        """Counts the columns of records; see `RecordFormat.columns`."""
        if b'"' not in data:
            return super().columns(data, records)
        array = np.frombuffer(data, np.uint8)
        places = np.flatnonzero(array == _COMMA)
        quotes = np.flatnonzero(array == _QUOTE)
        if not records.broken and _alternate(array, quotes, True):
            outside = np.searchsorted(quotes, places) % 2 == 0
            return count_between(places[outside], records)
        counts = count_between(places, records)
        quoted = np.searchsorted(quotes, records.ends) > np.searchsorted(
            quotes, records.starts
        )
        for i in np.flatnonzero(quoted).tolist():
            start, end = int(records.starts[i]), int(records.ends[i])
            if i not in records.broken:
                _, _, counts[i] = _record_end(data[start:end], 0, True)
        return counts

    def names(self, payload: bytes) -> list[str]:
        """Returns the column names in a header record."""
        return _fields(payload)

    def _short(self, records: Records, size: int) -> bool:
        """Tells whether every record, the last open one too, is in bounds."""
        longest = size - records.consumed
        if len(records.starts):
            longest = max(longest, int((records.ends - records.starts).max()))
        return longest <= self._max_record_bytes

    def _walk(self, data: bytes, final: bool) -> Records:
        """Finds records one by one, as irregular quotes need."""
        starts: list[int] = []
        ends: list[int] = []
        nexts: list[int] = []
        broken: dict[int, str] = {}
        position = 0
        while position < len(data):
            after, reason = self._next(data, position, final)
            if after < 0:
                break
            end = _payload_end(data, position, after)
            if reason:
                broken[len(starts)] = reason
            if end > position:
                starts.append(position)
                ends.append(end)
                nexts.append(after)
            position = after
        return make_records(starts, ends, nexts, position, broken)

    def _next(self, data: bytes, start: int, final: bool) -> tuple[int, str]:
        """Finds where the record at `start` ends.

        Returns:
            The position after it, -1 if it is not complete, and what is
            wrong with it.
        """
        after, reason, _ = _record_end(data, start, final)
        end = len(data) if after < 0 else _payload_end(data, start, after)
        long = end - start > self._max_record_bytes
        # All of data[start:end] belongs to this record.
        if long and not reason and b'"' in data[start:end]:
            reason = f"quotes and over {self._max_record_bytes} bytes"
        if after < 0 and not reason:
            return -1, ""
        if not reason:
            return after, ""
        line_break = data.find(b"\n", start)
        if line_break < 0 and not final:
            # Its line goes on in the next piece: broken there as well.
            return -1, ""
        return (len(data) if line_break < 0 else line_break + 1), reason


def _fields(payload: bytes) -> list[str]:
    text = io.StringIO(payload.decode("latin-1"), newline="")
    try:
        row = next(csv.reader(text), [])
    except csv.Error:
        return []
    return [field.encode("latin-1").decode(errors="replace") for field in row]


def _alternate(array: np.ndarray, quotes: np.ndarray, final: bool) -> bool:
    """Tells whether quotes open and close strictly in turn.

    Then a position is inside a quoted field if an odd number of quotes lies
    before it. Each odd quote must begin a field or follow the quote before
    it (a doubled quote), each even one must end a field or be doubled.
    """
    if final and len(quotes) % 2:
        return False
    opening = quotes[0::2]
    before = array[np.maximum(opening - 1, 0)]
    begins = (before == _COMMA) | (before == _NEWLINE) | (before == _QUOTE)
    begins |= opening == 0
    # Before an opening quote, a quote is the closing one of a doubled pair.
    if not begins.all():
        return False
    closing = quotes[1::2]
    size = len(array)
    after = array[np.minimum(closing + 1, size - 1)]
    finishes = (after == _COMMA) | (after == _NEWLINE) | (after == _QUOTE)
    second = array[np.minimum(closing + 2, size - 1)]
    line_end = (second == _NEWLINE) | (closing + 2 >= size)
    finishes |= (after == _RETURN) & line_end
    finishes |= closing + 1 >= size
    return bool(finishes.all())


def _payload_end(data: bytes, start: int, after: int) -> int:
    """Returns where a record ends without its line break."""
    end = after
    if end > start and data[end - 1] == _NEWLINE:
        end -= 1
    if end > start and data[end - 1] == _RETURN:
        end -= 1
    return end


def _record_end(data: bytes, start: int, final: bool) -> tuple[int, str, int]:
    """Walks over the fields of a record.

    Returns:
        The position after the record, -1 if the data end before it does;
        what is wrong with its quotes; and its number of columns.
    """
    position, size, columns = start, len(data), 1
    line_break = data.find(b"\n", start)
    while True:
        if position < size and data[position] == _QUOTE:
            close = _closing_quote(data, position + 1)
            if close < 0 and final:
                return size, "a quote that does not close", columns
            if not final and (close < 0 or close + 1 == size):
                return -1, "", columns
            position = close + 1
            if data[position : position + 2] == b"\r\n":
                position += 1
            elif position == size - 1 and data[position] == _RETURN:
                return (size if final else -1), "", columns
            if position == size:
                return size, "", columns
            if data[position] == _NEWLINE:
                return position + 1, "", columns
            if data[position] != _COMMA:
                return position, "text after a closing quote", columns
        else:
            if 0 <= line_break < position:
                line_break = data.find(b"\n", position)
            stop = size if line_break < 0 else line_break
            comma = data.find(b",", position, stop)
            if comma < 0 and line_break >= 0:
                return line_break + 1, "", columns
            if comma < 0:
                return (size if final else -1), "", columns
            position = comma
        position += 1
        columns += 1


def _closing_quote(data: bytes, position: int) -> int:
    """Returns where a quoted field closes, or -1."""
    while True:
        position = data.find(b'"', position)
        if position < 0 or data[position + 1 : position + 2] != b'"':
            return position
        position += 2
