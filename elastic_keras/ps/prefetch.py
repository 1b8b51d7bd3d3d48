"""A hint to the processor that memory is about to be read.

The rows of a table are far larger than any cache, so that every row costs a
miss. Kernels ask for the rows of the next few ids before they work on the
present one, and the misses overlap.
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
def prefetch(
    typing_context: Any, array: types.Type, index: types.Type
) -> tuple[Any, Callable[..., Any]]:
    """Asks for the cache line of `array[index]`; never faults.

    Args:
        array: A contiguous array.
        index: Position in elements; need not be inside the array.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        view = make_array(signature.args[0])(context, builder, args[0])
        byte_pointer = ir.IntType(8).as_pointer()
        int32 = ir.IntType(32)
        hint = builder.module.declare_intrinsic(
            "llvm.prefetch",
            (byte_pointer,),
            ir.FunctionType(ir.VoidType(), (byte_pointer, int32, int32, int32)),
        )
        address = builder.bitcast(
            builder.gep(view.data, [args[1]]), byte_pointer
        )
        builder.call(
            hint,
            [address, int32(_READ), int32(_KEEP_IN_ALL_CACHES), int32(_DATA)],
        )
        return context.get_dummy_value()

    return types.void(array, index), generate
