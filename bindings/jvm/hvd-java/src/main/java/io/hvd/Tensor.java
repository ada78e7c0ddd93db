// SPDX-License-Identifier: Apache-2.0
package io.hvd;

import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Objects;

/**
 * A primitive array or a {@link Buffer} with a dtype and a shape, in row-major order.
 *
 * <p>Direct buffers in native byte order are used where they are. Arrays and other buffers are copied once in and once out. A
 * buffer
 * counts from its position to its limit, as they are when the tensor is made.
 *
 * @param <A> {@code float[]}, {@code double[]}, {@code int[]}, {@code long[]}, {@code short[]}, {@code byte[]}, {@code
 * boolean[]}, or
 *     a buffer of one of these
 */
public final class Tensor<A> {
    private final A storage;
    private final DType dtype;
    private final long[] shape;
    private final int count;
    final Memory memory;

    private Tensor(A storage, Memory memory, DType dtype, long[] shape) {
        this.storage = storage;
        this.memory = memory;
        this.dtype = dtype;
        this.shape = shape;
        this.count = memory.elements(dtype);
    }

    /** All elements, in one dimension; the dtype is that of Java's type, signed. */
    public static <A> Tensor<A> of(A storage) {
        Memory memory = Memory.of(storage);
        return new Tensor<>(storage, memory, memory.natural(), new long[] {memory.elements(memory.natural())});
    }

    /** With a shape; one without numbers is a scalar. */
    public static <A> Tensor<A> of(A storage, long... shape) {
        return of(storage, Memory.of(storage).natural(), shape);
    }

    /**
     * With a dtype of the same width: {@code short[]} can be float16, bfloat16 or uint16, {@code byte[]} uint8 or bool, and a
     * {@link ByteBuffer} anything.
     */
    public static <A> Tensor<A> of(A storage, DType dtype, long... shape) {
        Objects.requireNonNull(dtype, "dtype");
        Memory memory = Memory.of(storage);
        memory.check(dtype);
        long[] own = shape.clone();
        long product = 1;
        for (long extent : own) {
            if (extent < 0) {
                throw new IllegalArgumentException("tensor: shape " + Arrays.toString(own) + " has a negative number");
            }
            product = extent != 0 && product > Integer.MAX_VALUE / extent ? Integer.MAX_VALUE + 1L : product * extent;
            if (product > Integer.MAX_VALUE && Arrays.stream(own).noneMatch(other -> other == 0)) {
                break;
            }
        }
        if (product != memory.elements(dtype)) {
            throw new IllegalArgumentException("tensor: shape " + Arrays.toString(own) + " does not fit " + memory.elements(dtype)
                    + " elements of " + dtype.nativeName() + " in a " + memory.typeName());
        }
        return new Tensor<>(storage, memory, dtype, own);
    }

    /** What the tensor was made of. */
    public A storage() {
        return storage;
    }

    public DType dtype() {
        return dtype;
    }

    public long[] shape() {
        return shape.clone();
    }

    public int dimensions() {
        return shape.length;
    }

    public long extent(int dimension) {
        return shape[dimension];
    }

    /** The number of elements. */
    public int count() {
        return count;
    }

    /** The size in bytes. */
    public long bytes() {
        return (long) count * dtype.bytes();
    }

    boolean sameFormat(Tensor<?> other) {
        return dtype == other.dtype && Arrays.equals(shape, other.shape);
    }

    /** A new tensor of the same kind, with room for this shape. */
    Tensor<A> like(DType ofType, long[] ofShape) {
        long elements = 1;
        for (long extent : ofShape) {
            elements *= extent;
        }
        @SuppressWarnings("unchecked")
        A fresh = (A) memory.fresh(elements, ofType);
        return new Tensor<>(fresh, Memory.of(fresh), ofType, ofShape.clone());
    }

    @Override
    public String toString() {
        return dtype.nativeName() + Arrays.toString(shape) + " in a " + memory.typeName();
    }
}
