"""Three instructions that numba has no name for: compare a whole line of a table at once, find the
first bit of a mask, and ask for a cache line before it is used. LLVM has them for every
processor."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LINE = 32  # bytes of a line: half a cache line, so that none crosses two


@intrinsic
def matches(typing_context: Any, address: Any, wanted: Any) -> Any:
    """A mask of the numbers in the line at an address that equal `wanted`: bit j is set if the j-th
    does. The numbers have the type of `wanted`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number = arguments[1].type
        lanes = 8 * LINE // number.width
        vector = ir.VectorType(number, lanes)
        line = builder.load(builder.inttoptr(arguments[0], vector.as_pointer()), align=LINE)
        first = builder.insert_element(
            ir.Constant(vector, ir.Undefined), arguments[1], ir.IntType(32)(0)
        )
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
        every = builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), zeros)
        same = builder.icmp_unsigned("==", line, every)
        return builder.zext(builder.bitcast(same, ir.IntType(lanes)), ir.IntType(32))

    return types.uint32(types.intp, wanted), generate


@intrinsic
def first_bit(typing_context: Any, mask: Any) -> Any:
    """The number of the lowest bit that is set; anything for 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        found = builder.cttz(arguments[0], ir.IntType(1)(1))
        return builder.zext(found, ir.IntType(64)) if found.type.width < 64 else found

    return types.int64(mask), generate


@intrinsic
def prefetch(typing_context: Any, address: Any) -> Any:
    """Have the processor read the cache line at an address, and do not wait for it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch")
        to_read, keep, data = number(0), number(3), number(1)
        builder.call(function, [builder.inttoptr(arguments[0], pointer), to_read, keep, data])
        return context.get_dummy_value()

    return types.void(types.intp), generate
