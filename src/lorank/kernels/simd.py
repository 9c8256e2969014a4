"""Eight numbers at a time: a vector type for numba.

numba's own vectoriser does not see the short loops of a k x k system (k is 5 to 50, not a constant), and runs them one
number at a time. With these few operations the kernels say themselves what is one vector; LLVM turns it into AVX,
AVX-512 or NEON. Measured on MovieLens-1M: a half-sweep at rank 10 is 2 to 3 times faster than with scalar loops.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic, models, register_model

LANES = 8

_INDEX = ir.IntType(32)
_FUSE = ("contract",)


class Vector(types.Type):
    """LANES numbers of one dtype, held in registers."""

    def __init__(self, dtype):
        self.dtype = dtype
        super().__init__(name=f"Vector({dtype}, {LANES})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager, vector):
        element = manager.lookup(vector.dtype).get_data_type()
        super().__init__(manager, vector, ir.VectorType(element, LANES))


def _broadcast(builder, number, vector_type):
    undefined = ir.Constant(vector_type, ir.Undefined)
    first = builder.insert_element(undefined, number, ir.Constant(_INDEX, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_INDEX, LANES), [0] * LANES))


def _address(context, builder, array_type, array, index_type, index, vector_type):
    whole = context.make_array(array_type)(context, builder, array)
    position = context.cast(builder, index, index_type, types.intp)
    if config.BOUNDSCHECK and isinstance(vector_type, ir.VectorType):
        _check_bounds(context, builder, position, whole.nitems)
    return builder.bitcast(builder.gep(whole.data, [position]), vector_type.as_pointer())


def _check_bounds(context, builder, position, size):
    """What numba does at every index with NUMBA_BOUNDSCHECK=1 (`make bounds`), for a vector of numbers."""
    end = builder.add(position, ir.Constant(position.type, LANES))
    before = builder.icmp_signed("<", position, ir.Constant(position.type, 0))
    with builder.if_then(builder.or_(before, builder.icmp_signed(">", end, size)), likely=False):
        context.call_conv.return_user_exc(builder, IndexError, ("A vector lies outside of its array.",))


@intrinsic
def load(_typing, array, index):
    """The vector array.flat[index : index + LANES] of a C-contiguous array; only `make bounds` checks it."""
    vector = Vector(array.dtype)

    def generate(context, builder, signature, args):
        vector_type = context.get_value_type(vector)
        value = builder.load(
            _address(context, builder, signature.args[0], args[0], signature.args[1], args[1], vector_type)
        )
        value.align = context.get_abi_sizeof(vector_type.element)
        return value

    return vector(array, index), generate


@intrinsic
def store(_typing, array, index, vector):
    """array.flat[index : index + LANES] = vector."""

    def generate(context, builder, signature, args):
        target = _address(context, builder, signature.args[0], args[0], signature.args[1], args[1], args[2].type)
        builder.store(args[2], target).align = context.get_abi_sizeof(args[2].type.element)
        return context.get_dummy_value()

    return types.void(array, index, vector), generate


@intrinsic
def prefetch(_typing, array, index):
    """Ask for the cache line of array.flat[index], to be read some time later."""

    def generate(context, builder, signature, args):
        byte = ir.IntType(8).as_pointer()
        address = _address(context, builder, signature.args[0], args[0], signature.args[1], args[1], ir.IntType(8))
        kind = ir.FunctionType(ir.VoidType(), [byte, _INDEX, _INDEX, _INDEX])
        call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        # To read, to keep in every cache, data.
        builder.call(call, [address, ir.Constant(_INDEX, 0), ir.Constant(_INDEX, 3), ir.Constant(_INDEX, 1)])
        return context.get_dummy_value()

    return types.void(array, index), generate


@intrinsic
def splat(_typing, number):
    """A vector with the number in every lane."""
    vector = Vector(number)

    def generate(context, builder, signature, args):
        return _broadcast(builder, args[0], context.get_value_type(vector))

    return vector(number), generate


@intrinsic
def fma(_typing, x, y, z):
    """x * y + z for vectors y and z; x is a vector or a number."""

    def generate(context, builder, signature, args):
        a = args[0] if isinstance(signature.args[0], Vector) else _broadcast(builder, args[0], args[1].type)
        return builder.fadd(builder.fmul(a, args[1], flags=_FUSE), args[2], flags=_FUSE)

    return z(x, y, z), generate


@intrinsic
def subtract_product(_typing, z, x, y):
    """z - x * y for vectors."""

    def generate(context, builder, signature, args):
        return builder.fsub(args[0], builder.fmul(args[1], args[2], flags=_FUSE), flags=_FUSE)

    return z(z, x, y), generate


@intrinsic
def multiply(_typing, x, y):
    """x * y for vectors."""

    def generate(context, builder, signature, args):
        return builder.fmul(*args)

    return x(x, y), generate


@intrinsic
def add(_typing, x, y):
    """x + y for vectors."""

    def generate(context, builder, signature, args):
        return builder.fadd(*args)

    return x(x, y), generate


@intrinsic
def total(_typing, x):
    """The sum of a vector's lanes, as a number, always added in the same order."""

    def generate(context, builder, signature, args):
        value, width = args[0], LANES
        while width > 1:
            width //= 2
            halves = [
                ir.Constant(ir.VectorType(_INDEX, width), list(range(start, start + width))) for start in (0, width)
            ]
            undefined = ir.Constant(value.type, ir.Undefined)
            low, high = (builder.shuffle_vector(value, undefined, half) for half in halves)
            value = builder.fadd(low, high)
        return builder.extract_element(value, ir.Constant(_INDEX, 0))

    return x.dtype(x), generate


@intrinsic
def totals(_typing, x0, x1, x2, x3):
    """The sums of the lanes of four vectors, as four numbers: a third of the shuffles of four times `total`."""
    numbers = types.UniTuple(x0.dtype, 4)

    def generate(context, builder, signature, args):
        def folded(x, y, low, high):
            masks = (ir.Constant(ir.VectorType(_INDEX, len(mask)), mask) for mask in (low, high))
            return builder.fadd(*(builder.shuffle_vector(x, y, mask) for mask in masks))

        halves = [0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]
        first, second = folded(args[0], args[1], *halves), folded(args[2], args[3], *halves)
        # Now four lanes for each; then two, in the order 0, 2, 1, 3; then one.
        pairs = folded(first, second, [0, 1, 8, 9, 4, 5, 12, 13], [2, 3, 10, 11, 6, 7, 14, 15])
        single = folded(pairs, pairs, [0, 2, 4, 6], [1, 3, 5, 7])
        parts = [builder.extract_element(single, ir.Constant(_INDEX, lane)) for lane in (0, 2, 1, 3)]
        return context.make_tuple(builder, numbers, parts)

    return numbers(x0, x1, x2, x3), generate


@intrinsic
def inverse_root(_typing, x):
    """1 / sqrt(x) in every lane; NaN where x is negative."""

    def generate(context, builder, signature, args):
        vector_type = args[0].type
        suffix = "f64" if signature.args[0].dtype == types.float64 else "f32"
        root = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(vector_type, [vector_type]), f"llvm.sqrt.v{LANES}{suffix}"
        )
        return builder.fdiv(ir.Constant(vector_type, [1.0] * LANES), builder.call(root, [args[0]]))

    return x(x), generate
