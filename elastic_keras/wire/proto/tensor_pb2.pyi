from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DTYPE_UNSPECIFIED: _ClassVar[DType]
    FLOAT32: _ClassVar[DType]
    FLOAT16: _ClassVar[DType]
    BFLOAT16: _ClassVar[DType]
    INT32: _ClassVar[DType]
    INT64: _ClassVar[DType]
    FLOAT64: _ClassVar[DType]
    UINT8: _ClassVar[DType]

class Compression(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NONE: _ClassVar[Compression]
    LZ4: _ClassVar[Compression]
    SNAPPY: _ClassVar[Compression]
    ZSTD: _ClassVar[Compression]
DTYPE_UNSPECIFIED: DType
FLOAT32: DType
FLOAT16: DType
BFLOAT16: DType
INT32: DType
INT64: DType
FLOAT64: DType
UINT8: DType
NONE: Compression
LZ4: Compression
SNAPPY: Compression
ZSTD: Compression

class Tensor(_message.Message):
    __slots__ = ("dtype", "shape", "data", "crc32c", "compression", "block_bytes", "region_offset", "region_bytes")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    CRC32C_FIELD_NUMBER: _ClassVar[int]
    COMPRESSION_FIELD_NUMBER: _ClassVar[int]
    BLOCK_BYTES_FIELD_NUMBER: _ClassVar[int]
    REGION_OFFSET_FIELD_NUMBER: _ClassVar[int]
    REGION_BYTES_FIELD_NUMBER: _ClassVar[int]
    dtype: DType
    shape: _containers.RepeatedScalarFieldContainer[int]
    data: bytes
    crc32c: int
    compression: Compression
    block_bytes: _containers.RepeatedScalarFieldContainer[int]
    region_offset: int
    region_bytes: int
    def __init__(self, dtype: _Optional[_Union[DType, str]] = ..., shape: _Optional[_Iterable[int]] = ..., data: _Optional[bytes] = ..., crc32c: _Optional[int] = ..., compression: _Optional[_Union[Compression, str]] = ..., block_bytes: _Optional[_Iterable[int]] = ..., region_offset: _Optional[int] = ..., region_bytes: _Optional[int] = ...) -> None: ...

class Region(_message.Message):
    __slots__ = ("pid", "fd", "segment_bytes", "key", "offset", "bytes")
    PID_FIELD_NUMBER: _ClassVar[int]
    FD_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    pid: int
    fd: int
    segment_bytes: int
    key: bytes
    offset: int
    bytes: int
    def __init__(self, pid: _Optional[int] = ..., fd: _Optional[int] = ..., segment_bytes: _Optional[int] = ..., key: _Optional[bytes] = ..., offset: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class Piece(_message.Message):
    __slots__ = ("method", "total_bytes", "data", "crc32c")
    METHOD_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    CRC32C_FIELD_NUMBER: _ClassVar[int]
    method: str
    total_bytes: int
    data: bytes
    crc32c: int
    def __init__(self, method: _Optional[str] = ..., total_bytes: _Optional[int] = ..., data: _Optional[bytes] = ..., crc32c: _Optional[int] = ...) -> None: ...

class Empty(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
