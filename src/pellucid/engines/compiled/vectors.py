"""Loops over vectors of single precision, written as LLVM instructions: what numba's compiler does not make of loops.

`block_1` to `block_6` are the inner loop of a matrix product for 1 to 6 rows; `dots_*` and `weighted_*` are the two
products of attention for one query. All arrays are flat. Each sum goes in one order, by fused multiply-adds, whatever
rows are computed with it: so a row's digits do not depend on the other rows.

The tile of a product, ROWS x TILE numbers, stays in registers: 24 of 32 with AVX-512 and NEON, 12 of 16 with AVX2.
"""

from collections.abc import Callable
from typing import Any

import numba
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from pellucid.engines.compiled.layout import ADD, RELU

FLOAT: Any = ir.FloatType()
INT64: Any = ir.IntType(64)
INT32: Any = ir.IntType(32)
ROWS = 6


def choose_lanes(features: dict[str, bool], architecture: str, cpu_name: str | None) -> tuple[int, int]:
    """Returns the numbers in a vector and the columns of a tile for a processor; (0, 0) without fused multiply-adds.

    A `cpu_name` is that of another processor, for which numba compiles if NUMBA_CPU_NAME is set: it has AVX2 at least.
    """
    if architecture in ("aarch64", "arm64"):
        return 4, 16
    if features.get("avx512f") and cpu_name is None:
        return 16, 64
    return (8, 16) if features.get("avx2") and features.get("fma") else (0, 0)


LANES, TILE = choose_lanes(
    dict(binding.get_host_cpu_features()), binding.get_process_triple().partition("-")[0], numba.config.CPU_NAME
)
VEC: Any = ir.VectorType(FLOAT, LANES or 4)


class _Code:
    """The builder of a function's instructions, with the operations that all functions here use."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    @staticmethod
    def number(value: int) -> Any:
        return ir.Constant(INT64, value)

    def move(self, pointer: Any, index: Any) -> Any:
        return self.builder.gep(pointer, [index if isinstance(index, ir.Value) else self.number(index)])

    def load(self, pointer: Any) -> Any:
        found = self.builder.load(self.builder.bitcast(pointer, VEC.as_pointer()))
        found.align = 4
        return found

    def store(self, value: Any, pointer: Any) -> None:
        self.builder.store(value, self.builder.bitcast(pointer, VEC.as_pointer())).align = 4

    def fill(self, number: Any) -> Any:
        """Returns a vector of one number."""
        unknown = ir.Constant(VEC, ir.Undefined)
        first = self.builder.insert_element(unknown, number, ir.Constant(INT32, 0))
        return self.builder.shuffle_vector(first, unknown, ir.Constant(ir.VectorType(INT32, LANES), [0] * LANES))

    def multiply_add(self, a: Any, b: Any, c: Any) -> Any:
        name, kind = f"llvm.fma.v{LANES}f32", ir.FunctionType(VEC, [VEC] * 3)
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, kind, name), [a, b, c])

    def largest(self, a: Any, b: Any) -> Any:
        """Returns the larger of each pair of numbers; NaN if one is."""
        is_less = self.builder.fcmp_ordered("<", a, b)
        return self.builder.select(is_less, b, a)

    def sum(self, vector: Any) -> Any:
        """Returns the sum of a vector, by halves."""
        half = LANES
        while half > 1:
            half //= 2
            of = ir.VectorType(INT32, half)
            low, high = ir.Constant(of, list(range(half))), ir.Constant(of, list(range(half, 2 * half)))
            unknown = ir.Constant(vector.type, ir.Undefined)
            vector = self.builder.fadd(
                self.builder.shuffle_vector(vector, unknown, low), self.builder.shuffle_vector(vector, unknown, high)
            )
        return self.builder.extract_element(vector, ir.Constant(INT32, 0))

    def loop(self, count: Any, carried: list[Any]) -> tuple[Any, list[Any], Callable[[list[Any]], None]]:
        """Begins a loop of one turn at least, with values that it carries.

        Returns its index, the carried values, and a function that ends the loop with their new values.
        """
        builder, before = self.builder, self.builder.block
        body, after = builder.append_basic_block("turn"), builder.append_basic_block("after")
        builder.branch(body)
        builder.position_at_end(body)
        index = builder.phi(INT64)
        index.add_incoming(self.number(0), before)
        values = [builder.phi(value.type) for value in carried]
        for phi, value in zip(values, carried, strict=True):
            phi.add_incoming(value, before)

        def end(new: list[Any]) -> None:
            following = builder.add(index, self.number(1))
            index.add_incoming(following, builder.block)
            for phi, value in zip(values, new, strict=True):
                phi.add_incoming(value, builder.block)
            builder.cbranch(builder.icmp_signed("<", following, count), body, after)
            builder.position_at_end(after)

        return index, values, end


def _open(context: Any, builder: Any, signature: Any, args: Any, arrays: tuple[int, ...]) -> tuple[_Code, list[Any]]:
    """Returns the code of a function, and the addresses of some of its arguments, which are arrays."""
    data = [context.make_array(signature.args[i])(context, builder, value=args[i]).data for i in arrays]
    return _Code(builder), data


def _make_block(rows: int) -> Any:
    """Returns the product of `rows` rows with a panel of TILE columns, of `size` (at least 1) numbers each.

    block(x, xo, ldx, w, wo, size, bo, y, yo, ldy, mode): row r begins at x[xo + r * ldx], the panel (size, TILE) at
    w[wo], its bias at w[bo], the output at y[yo + r * ldy].
    """
    parts = TILE // LANES if LANES else 0

    @intrinsic
    def block(
        typingctx: Any, x: Any, xo: Any, ldx: Any, w: Any, wo: Any, size: Any, bo: Any, y: Any, yo: Any, ldy: Any,
        mode: Any,
    ) -> Any:  # fmt: skip
        i = types.int64

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            code, (px, pw, py) = _open(context, builder, signature, args, (0, 3, 7))
            _, xo, ldx, _, wo, size, bo, _, yo, ldy, mode = args
            sources, targets = [code.move(px, xo)], [code.move(py, yo)]
            for _ in range(1, rows):
                sources.append(code.move(sources[-1], ldx))
                targets.append(code.move(targets[-1], ldy))
            panel, bias = code.move(pw, wo), code.move(pw, bo)
            first = [code.load(code.move(bias, part * LANES)) for part in range(parts)]
            k, sums, end = code.loop(size, first * rows)
            line = code.move(panel, builder.mul(k, code.number(TILE)))
            weights = [code.load(code.move(line, part * LANES)) for part in range(parts)]
            new = []
            for r in range(rows):
                x_k = code.fill(builder.load(code.move(sources[r], k)))
                new += [code.multiply_add(x_k, weights[p], sums[r * parts + p]) for p in range(parts)]
            end(new)
            # One sequence for all modes: the output before or 0 is added, and what is below 0 or minus infinity is cut.
            adds = builder.icmp_signed("==", mode, code.number(int(ADD)))
            is_relu = builder.icmp_signed("==", mode, code.number(int(RELU)))
            zeros, lowest = ir.Constant(VEC, [0.0] * LANES), ir.Constant(VEC, [float("-inf")] * LANES)
            least = builder.select(is_relu, zeros, lowest)
            places = [code.move(targets[r], p * LANES) for r in range(rows) for p in range(parts)]
            for value, place in zip(new, places, strict=True):
                before = builder.select(adds, code.load(place), zeros)
                code.store(code.largest(builder.fadd(value, before), least), place)
            return context.get_dummy_value()

        return types.void(x, i, i, w, i, i, i, y, i, i, i), generate

    return block


def _make_dots(parts: int) -> Any:
    """Returns dots(q, qo, kv, index, base, n, p, adds): p[j] = or += q[qo:] . kv[index[j] + base:] for j < n, n > 0.

    The vectors have `parts` times LANES numbers.
    """

    @intrinsic
    def dots(typingctx: Any, q: Any, qo: Any, kv: Any, index: Any, base: Any, n: Any, p: Any, adds: Any) -> Any:
        i = types.int64

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            code, (pq, pkv, pindex, pp) = _open(context, builder, signature, args, (0, 2, 3, 6))
            query, keys = code.move(pq, args[1]), code.move(pkv, args[4])
            of_query = [code.load(code.move(query, part * LANES)) for part in range(parts)]
            adds = builder.icmp_signed("!=", args[7], code.number(0))
            j, _, end = code.loop(args[5], [])
            key = code.move(keys, builder.load(code.move(pindex, j)))
            total = builder.fmul(of_query[0], code.load(key))
            for part in range(1, parts):
                total = code.multiply_add(of_query[part], code.load(code.move(key, part * LANES)), total)
            place = code.move(pp, j)
            before = builder.select(adds, builder.load(place), ir.Constant(FLOAT, 0.0))
            builder.store(builder.fadd(before, code.sum(total)), place)
            end([])
            return context.get_dummy_value()

        return types.void(q, i, kv, index, i, i, p, i), generate

    return dots


def _make_weighted(parts: int) -> Any:
    """Returns weighted(p, n, kv, index, base, out, oo): out[oo:] = the sum of p[j] kv[index[j] + base:], j < n, n > 0.

    The vectors have `parts` times LANES numbers.
    """

    @intrinsic
    def weighted(typingctx: Any, p: Any, n: Any, kv: Any, index: Any, base: Any, out: Any, oo: Any) -> Any:
        i = types.int64

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            code, (pp, pkv, pindex, pout) = _open(context, builder, signature, args, (0, 2, 3, 5))
            values, target = code.move(pkv, args[4]), code.move(pout, args[6])
            j, sums, end = code.loop(args[1], [ir.Constant(VEC, [0.0] * LANES)] * parts)
            value, weight = (
                code.move(values, builder.load(code.move(pindex, j))),
                code.fill(builder.load(code.move(pp, j))),
            )
            new = [
                code.multiply_add(weight, code.load(code.move(value, part * LANES)), sums[part])
                for part in range(parts)
            ]
            end(new)
            for part in range(parts):
                code.store(new[part], code.move(target, part * LANES))
            return context.get_dummy_value()

        return types.void(p, i, kv, index, i, out, i), generate

    return weighted


@intrinsic
def reinterpret_bits(typingctx: Any, bits: Any) -> Any:
    """Returns the number in single precision that has the bits of an int32."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(types.float32))

    return types.float32(types.int32), generate


block_1: Any = _make_block(1)
block_2: Any = _make_block(2)
block_3: Any = _make_block(3)
block_4: Any = _make_block(4)
block_5: Any = _make_block(5)
block_6: Any = _make_block(6)
dots_1: Any = _make_dots(1)
dots_2: Any = _make_dots(2)
dots_4: Any = _make_dots(4)
weighted_1: Any = _make_weighted(1)
weighted_2: Any = _make_weighted(2)
weighted_4: Any = _make_weighted(4)
