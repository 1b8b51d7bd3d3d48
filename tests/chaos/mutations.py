"""Wrong forms of a valid message, field by field."""

from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

_NUMBERS = {
    FieldDescriptor.CPPTYPE_INT32: (-(1 << 31), -1, 0, 1, (1 << 31) - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(1 << 63), -1, 0, 1, (1 << 63) - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 1, 7, (1 << 32) - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 1, 7, (1 << 64) - 1),
    FieldDescriptor.CPPTYPE_DOUBLE: (
        float("nan"),
        float("inf"),
        -1.0,
        0.0,
        1e308,
    ),
    FieldDescriptor.CPPTYPE_FLOAT: (float("nan"), float("inf"), -1.0, 0.0),
    FieldDescriptor.CPPTYPE_BOOL: (False, True),
    FieldDescriptor.CPPTYPE_ENUM: (0, 1, 2, 99),
}
_TEXTS = ("", "x", "../../etc/passwd", "{}", "[]", "null", "a" * 100_000, "\0")


def mutations(message: Message) -> Iterator[tuple[str, Message]]:
    """Gives copies of a message with one field wrong, nested ones too.

    Yields:
        The field and what was done to it; the changed copy. Some copies may
        be valid messages of another meaning.
    """
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.is_repeated:
            yield from _of_repeated(message, field)
        elif field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            if message.HasField(field.name):
                yield _copy(message, f"{field.name}: absent", field, None)
            for what, changed in mutations(value):
                yield _copy(message, f"{field.name}.{what}", field, changed)
        else:
            for other in _others(field, value):
                what = f"{field.name}: {str(other)[:20]!r}"
                yield _copy(message, what, field, other)


def _of_repeated(
    message: Message, field: FieldDescriptor
) -> Iterator[tuple[str, Message]]:
    values = list(getattr(message, field.name))
    if field.message_type is not None and (
        field.message_type.GetOptions().map_entry
    ):
        return
    if values:
        yield _with_values(message, f"{field.name}: none", field, [])
        yield _with_values(
            message, f"{field.name}: first twice", field, [values[0], *values]
        )
    for place, value in enumerate(values):
        changes: Iterator[tuple[str, Any]]
        if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            changes = mutations(value)
        else:
            changes = ((repr(o)[:20], o) for o in _others(field, value))
        for what, changed in changes:
            yield _with_values(
                message,
                f"{field.name}[{place}].{what}",
                field,
                [*values[:place], changed, *values[place + 1 :]],
            )


def _others(field: FieldDescriptor, value: Any) -> Iterator[Any]:
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        if field.type == FieldDescriptor.TYPE_BYTES:
            yield from _bytes_like(value)
        else:
            yield from (text for text in _TEXTS if text != value)
            yield value[: len(value) // 2]
            yield value + "x"
        return
    for number in _NUMBERS[field.cpp_type]:
        if number != value:
            yield number


def _bytes_like(value: bytes) -> Iterator[bytes]:
    yield b""
    yield b"\xff"
    yield value + b"\0"
    yield value * 2
    if value:
        yield value[:-1]
        yield bytes([value[0] ^ 1]) + value[1:]
        yield b"\xff" * len(value)


def _copy(
    message: Message, what: str, field: FieldDescriptor, value: Any
) -> tuple[str, Message]:
    copy = type(message)()
    copy.CopyFrom(message)
    copy.ClearField(field.name)
    if isinstance(value, Message):
        getattr(copy, field.name).CopyFrom(value)
    elif value is not None:
        setattr(copy, field.name, value)
    return what, copy


def _with_values(
    message: Message, what: str, field: FieldDescriptor, values: list[Any]
) -> tuple[str, Message]:
    copy = type(message)()
    copy.CopyFrom(message)
    copy.ClearField(field.name)
    getattr(copy, field.name).extend(values)
    return what, copy
