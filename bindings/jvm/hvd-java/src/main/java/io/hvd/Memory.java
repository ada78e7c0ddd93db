// SPDX-License-Identifier: Apache-2.0
package io.hvd;

import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.DoubleBuffer;
import java.nio.FloatBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.nio.ShortBuffer;
import java.util.Objects;

/** The elements behind a tensor: an array, a direct buffer, or a buffer that has to be copied. */
final class Memory {
    /** The JVM's letter for the type of an element. */
    final char letter;

    private final Object array; // of an array, or of a heap buffer that shows its own
    private final Buffer buffer; // of any buffer
    private final int first;
    private final int count;
    private final boolean direct;

    private Memory(char letter, Object array, Buffer buffer, int first, int count) {
        this.letter = letter;
        this.array = array;
        this.buffer = buffer;
        this.first = first;
        this.count = count;
        this.direct = buffer != null && buffer.isDirect() && (letter == 'B' || order(buffer) == ByteOrder.nativeOrder());
    }

    static Memory of(Object storage) {
        Objects.requireNonNull(storage, "tensor");
        if (storage instanceof Buffer) {
            return ofBuffer((Buffer) storage);
        }
        char letter = storage.getClass().isArray() ? letterOf(storage.getClass().getComponentType()) : 0;
        if (letter == 0) {
            throw new IllegalArgumentException("tensor: a " + storage.getClass().getTypeName()
                    + " cannot be one; an array or buffer of float, double, int, long, short, byte, or a boolean[] can");
        }
        return new Memory(letter, storage, null, 0, java.lang.reflect.Array.getLength(storage));
    }

    private static Memory ofBuffer(Buffer buffer) {
        char letter = buffer instanceof FloatBuffer ? 'F'
                : buffer instanceof ByteBuffer ? 'B'
                : buffer instanceof DoubleBuffer ? 'D'
                : buffer instanceof IntBuffer ? 'I'
                : buffer instanceof LongBuffer ? 'J'
                : buffer instanceof ShortBuffer ? 'S' : 0;
        if (letter == 0) {
            throw new IllegalArgumentException("tensor: a CharBuffer cannot be one; use a ShortBuffer with the dtype UINT16");
        }
        if (buffer.hasArray()) {
            return new Memory(letter, buffer.array(), buffer, buffer.arrayOffset() + buffer.position(), buffer.remaining());
        }
        return new Memory(letter, null, buffer, buffer.position(), buffer.remaining());
    }

    private static char letterOf(Class<?> type) {
        return type == float.class ? 'F'
                : type == double.class ? 'D'
                : type == int.class ? 'I'
                : type == long.class ? 'J'
                : type == short.class ? 'S'
                : type == byte.class ? 'B'
                : type == boolean.class ? 'Z' : 0;
    }

    private static ByteOrder order(Buffer buffer) {
        return buffer instanceof FloatBuffer ? ((FloatBuffer) buffer).order()
                : buffer instanceof DoubleBuffer ? ((DoubleBuffer) buffer).order()
                : buffer instanceof IntBuffer ? ((IntBuffer) buffer).order()
                : buffer instanceof LongBuffer ? ((LongBuffer) buffer).order()
                : buffer instanceof ShortBuffer ? ((ShortBuffer) buffer).order()
                : ((ByteBuffer) buffer).order();
    }

    private int width() {
        switch (letter) {
            case 'Z':
            case 'B':
                return 1;
            case 'S':
                return 2;
            case 'I':
            case 'F':
                return 4;
            default:
                return 8;
        }
    }

    String typeName() {
        return buffer != null ? buffer.getClass().getSuperclass() == Object.class ? "buffer" : bufferName() : arrayName();
    }

    private String arrayName() {
        return array.getClass().getTypeName();
    }

    private String bufferName() {
        String kind = buffer instanceof FloatBuffer ? "FloatBuffer"
                : buffer instanceof DoubleBuffer ? "DoubleBuffer"
                : buffer instanceof IntBuffer ? "IntBuffer"
                : buffer instanceof LongBuffer ? "LongBuffer"
                : buffer instanceof ShortBuffer ? "ShortBuffer" : "ByteBuffer";
        return (buffer.isDirect() ? "direct " : "") + kind;
    }

    DType natural() {
        switch (letter) {
            case 'F':
                return DType.FLOAT32;
            case 'D':
                return DType.FLOAT64;
            case 'I':
                return DType.INT32;
            case 'J':
                return DType.INT64;
            case 'S':
                return DType.INT16;
            case 'Z':
                return DType.BOOL;
            default:
                return DType.INT8;
        }
    }

    private boolean raw() {
        return buffer instanceof ByteBuffer;
    }

    /** Throws unless elements of this dtype can stand here. */
    void check(DType dtype) {
        boolean fits = letter == 'F' ? dtype == DType.FLOAT32
                : letter == 'D' ? dtype == DType.FLOAT64
                : letter == 'I' ? dtype == DType.INT32
                : letter == 'J' ? dtype == DType.INT64
                : letter == 'Z' ? dtype == DType.BOOL
                : letter == 'S' ? dtype.bytes() == 2
                : dtype.bytes() == 1 || raw();
        if (!fits) {
            throw new IllegalArgumentException("tensor: a " + typeName() + " cannot hold " + dtype.nativeName());
        }
        if (raw() && dtype.bytes() > 1 && order(buffer) != ByteOrder.nativeOrder()) {
            throw new IllegalArgumentException("tensor: the ByteBuffer is " + order(buffer) + ", " + dtype.nativeName()
                    + " must be " + ByteOrder.nativeOrder() + "; call order(ByteOrder.nativeOrder()) before writing to it");
        }
        if (count * (long) width() % dtype.bytes() != 0) {
            throw new IllegalArgumentException("tensor: " + count + " bytes are no whole number of " + dtype.nativeName());
        }
    }

    /** How many elements of a dtype that has passed the check. */
    int elements(DType dtype) {
        return raw() ? count / dtype.bytes() : count;
    }

    boolean isDirect() {
        return direct;
    }

    /** Throws if results cannot be written here. */
    void checkWritable() {
        if (buffer != null && buffer.isReadOnly()) {
            throw new IllegalArgumentException("tensor: results cannot be written to a read-only " + bufferName());
        }
    }

    /** Of a direct one. Reads an element, because a buffer of a closed arena (JDK 22) has an address but no memory. */
    long address() {
        if (count == 0) {
            return 0;
        }
        touch();
        return RawJNI.address(buffer) + (long) first * width();
    }

    private void touch() {
        switch (letter) {
            case 'F':
                ((FloatBuffer) whole()).get(0);
                break;
            case 'D':
                ((DoubleBuffer) whole()).get(0);
                break;
            case 'I':
                ((IntBuffer) whole()).get(0);
                break;
            case 'J':
                ((LongBuffer) whole()).get(0);
                break;
            case 'S':
                ((ShortBuffer) whole()).get(0);
                break;
            default:
                ((ByteBuffer) whole()).get(0);
                break;
        }
    }

    /** The buffer, if its limit allows an access at 0; else one whose limit does. */
    private Buffer whole() {
        return buffer.limit() > 0 ? buffer : buffer.duplicate().clear();
    }

    /** Of others: copies the elements out of the heap. */
    void copyTo(long address) {
        if (count == 0) {
            return;
        }
        if (array != null) {
            RawJNI.arrayToMemory(array, letter, first, count, address);
        } else {
            transfer(view(address), slice(), false);
        }
    }

    /** Copies results from memory. */
    void copyFrom(long address) {
        if (count == 0) {
            return;
        }
        if (array != null) {
            RawJNI.memoryToArray(address, array, letter, first, count);
        } else if (direct) {
            RawJNI.copy(address, address(), (long) count * width());
        } else {
            transfer(view(address), slice(), true);
        }
    }

    private ByteBuffer view(long address) {
        return ((ByteBuffer) RawJNI.view(address, (long) count * width())).order(ByteOrder.nativeOrder());
    }

    private Buffer slice() {
        return buffer.duplicate().clear().position(first).limit(first + count);
    }

    private void transfer(ByteBuffer outside, Buffer inside, boolean inwards) {
        switch (letter) {
            case 'F':
                FloatBuffer floats = outside.asFloatBuffer();
                (inwards ? (FloatBuffer) inside : floats).put(inwards ? floats : (FloatBuffer) inside);
                break;
            case 'D':
                DoubleBuffer doubles = outside.asDoubleBuffer();
                (inwards ? (DoubleBuffer) inside : doubles).put(inwards ? doubles : (DoubleBuffer) inside);
                break;
            case 'I':
                IntBuffer ints = outside.asIntBuffer();
                (inwards ? (IntBuffer) inside : ints).put(inwards ? ints : (IntBuffer) inside);
                break;
            case 'J':
                LongBuffer longs = outside.asLongBuffer();
                (inwards ? (LongBuffer) inside : longs).put(inwards ? longs : (LongBuffer) inside);
                break;
            case 'S':
                ShortBuffer shorts = outside.asShortBuffer();
                (inwards ? (ShortBuffer) inside : shorts).put(inwards ? shorts : (ShortBuffer) inside);
                break;
            default:
                (inwards ? (ByteBuffer) inside : outside).put(inwards ? outside : (ByteBuffer) inside);
                break;
        }
    }

    /** A new array, heap buffer or direct buffer of the same type. */
    Object fresh(long elements, DType dtype) {
        long units = raw() ? elements * dtype.bytes() : elements;
        if (units > Integer.MAX_VALUE || direct && units * width() > Integer.MAX_VALUE) {
            throw new HvdCallException(Status.UNSUPPORTED, -1, 0,
                    "the result has " + elements + " elements of " + dtype.nativeName() + ", too many for a " + typeName());
        }
        int size = (int) units;
        boolean outside = buffer != null && buffer.isDirect();
        ByteBuffer bytes = outside ? ByteBuffer.allocateDirect(Math.toIntExact(units * width())).order(ByteOrder.nativeOrder()) : null;
        switch (letter) {
            case 'F':
                return buffer == null ? new float[size] : outside ? bytes.asFloatBuffer() : FloatBuffer.allocate(size);
            case 'D':
                return buffer == null ? new double[size] : outside ? bytes.asDoubleBuffer() : DoubleBuffer.allocate(size);
            case 'I':
                return buffer == null ? new int[size] : outside ? bytes.asIntBuffer() : IntBuffer.allocate(size);
            case 'J':
                return buffer == null ? new long[size] : outside ? bytes.asLongBuffer() : LongBuffer.allocate(size);
            case 'S':
                return buffer == null ? new short[size] : outside ? bytes.asShortBuffer() : ShortBuffer.allocate(size);
            case 'Z':
                return new boolean[size];
            default:
                return buffer == null ? new byte[size]
                        : outside ? bytes : ByteBuffer.allocate(size).order(ByteOrder.nativeOrder());
        }
    }
}
