"""Bare addresses for kernels: no reference counts, and hints to the cache.

Handing an array to a function costs numba two locked instructions, more than
an element's arithmetic. Kernels therefore take arrays from Python, and hand
their addresses on; the arrays outlive the kernel's run.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

_READ = 0
_KEEP_IN_ALL_CACHES = 3
_DATA = 1


@intrinsic
def _pointer(typing_context: Any, array: Any) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return make_array(signature.args[0])(context, builder, args[0]).data

    return types.CPointer(array.dtype)(array), generate


@intrinsic
def _prefetch(
    typing_context: Any, start: Any, index: Any
) -> tuple[Any, Callable[..., Any]]:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte_pointer = ir.IntType(8).as_pointer()
        int32 = ir.IntType(32)
        hint = builder.module.declare_intrinsic(
            "llvm.prefetch",
            (byte_pointer,),
            ir.FunctionType(ir.VoidType(), (byte_pointer, int32, int32, int32)),
        )
        address = builder.bitcast(builder.gep(args[0], [args[1]]), byte_pointer)
        builder.call(
            hint,
            [address, int32(_READ), int32(_KEEP_IN_ALL_CACHES), int32(_DATA)],
        )
        return context.get_dummy_value()

    return types.void(start, index), generate


# numba passes the typing context itself; to a type checker these are plain
# functions without it.

# The address of a contiguous array's first element, to be indexed.
pointer: Callable[[Any], Any] = _pointer  # type: ignore[assignment]
# Asks for the cache line of `start[index]`, a pointer's; never faults.
prefetch: Callable[[Any, Any], None] = _prefetch  # type: ignore[assignment]
