// SPDX-License-Identifier: Apache-2.0
package io.hvd;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;

/**
 * Memory outside of the Java heap in which the structs of one call are written: an error, an output word, a count, and the
 * rest.
 */
final class Scratch {
    private static final int OUT = Raw.SIZEOF_hvd_error;
    private static final int COUNT = OUT + 8;
    private static final int FREE = OUT + 64;
    private static final int USUAL = 8192;

    final ByteBuffer bytes;
    final long base;
    private int next = FREE;

    Scratch(long room) {
        if (room > Integer.MAX_VALUE - FREE) {
            throw new IllegalArgumentException("a call with " + room + " bytes of names, shapes and splits is too large");
        }
        bytes = ByteBuffer.allocateDirect(Math.max(USUAL, FREE + (int) room)).order(ByteOrder.nativeOrder());
        base = RawJNI.address(bytes);
        bytes.putInt(Raw.OFFSETOF_hvd_error_struct_size, Raw.SIZEOF_hvd_error);
    }

    /** For the next call, which takes at most this many bytes; false if there is too little room. */
    boolean reset(long room) {
        next = FREE;
        return room <= bytes.capacity() - FREE;
    }

    boolean isUsual() {
        return bytes.capacity() == USUAL;
    }

    /** The place of `size` bytes, aligned to 8, not cleared. */
    int take(int size) {
        int place = next;
        next += (size + 7) & ~7;
        if (next > bytes.capacity()) {
            throw new IllegalStateException("a call needs more than the " + bytes.capacity() + " bytes that were reserved");
        }
        return place;
    }

    int takeText(byte[] text) {
        int place = take(text.length + 1);
        bytes.put(place, text, 0, text.length);
        bytes.put(place + text.length, (byte) 0);
        return place;
    }

    long error() {
        return base;
    }

    long out() {
        return base + OUT;
    }

    long outPointer() {
        return bytes.getLong(OUT);
    }

    int outInt() {
        return bytes.getInt(OUT);
    }

    long countAddress() {
        return base + COUNT;
    }

    long count() {
        return bytes.getLong(COUNT);
    }

    void setCount(long count) {
        bytes.putLong(COUNT, count);
    }

    /** The exception for a status, with what the call wrote into the error. */
    HvdException failure(int status) {
        int start = Raw.OFFSETOF_hvd_error_message;
        int end = start;
        while (end < Raw.SIZEOF_hvd_error && bytes.get(end) != 0) {
            ++end;
        }
        byte[] text = new byte[end - start];
        bytes.get(start, text, 0, text.length);
        return HvdException.of(status, bytes.getInt(Raw.OFFSETOF_hvd_error_rank), bytes.getInt(Raw.OFFSETOF_hvd_error_sys_errno),
                new String(text, StandardCharsets.UTF_8));
    }

    void check(int status) {
        if (status < 0) {
            throw failure(status);
        }
    }

    /** Bytes of `count` tensors, not counting their shapes. */
    int takeTensors(int count) {
        return take(Math.multiplyExact(count, Raw.SIZEOF_hvd_tensor));
    }

    void putTensor(int place, Tensor<?> tensor, long data) {
        int dimensions = tensor.dimensions();
        int shape = take(8 * dimensions);
        for (int i = 0; i < dimensions; ++i) {
            bytes.putLong(shape + 8 * i, tensor.extent(i));
        }
        bytes.putLong(place + Raw.OFFSETOF_hvd_tensor_data, data);
        bytes.putLong(place + Raw.OFFSETOF_hvd_tensor_shape, base + shape);
        bytes.putInt(place + Raw.OFFSETOF_hvd_tensor_ndim, dimensions);
        bytes.putInt(place + Raw.OFFSETOF_hvd_tensor_dtype, tensor.dtype().number());
        bytes.putInt(place + Raw.OFFSETOF_hvd_tensor_device_type, Raw.HVD_CPU);
        bytes.putInt(place + Raw.OFFSETOF_hvd_tensor_device_id, 0);
        bytes.putLong(place + Raw.OFFSETOF_hvd_tensor_reserved, 0);
        bytes.putLong(place + Raw.OFFSETOF_hvd_tensor_reserved + 8, 0);
    }
}
