// SPDX-License-Identifier: Apache-2.0
package io.hvd;

/** What the elements of a tensor are. */
public enum DType {
    UINT8(0, 1),
    INT8(1, 1),
    UINT16(2, 2),
    INT16(3, 2),
    INT32(4, 4),
    INT64(5, 8),
    FLOAT16(6, 2),
    FLOAT32(7, 4),
    FLOAT64(8, 8),
    /** One byte, 0 or 1. */
    BOOL(9, 1),
    BFLOAT16(10, 2);

    private final int number;
    private final int bytes;

    DType(int number, int bytes) {
        this.number = number;
        this.bytes = bytes;
    }

    /** The number of {@code hvd.h}. */
    public int number() {
        return number;
    }

    /** Bytes per element. */
    public int bytes() {
        return bytes;
    }

    /** The library's name for it: {@code float32}. */
    public String nativeName() {
        return name().toLowerCase(java.util.Locale.ROOT);
    }
}
