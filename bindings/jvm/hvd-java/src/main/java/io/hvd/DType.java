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
    BFLOAT16(10, 2),
    UINT32(11, 4),
    UINT64(12, 8),
    /** Two float32: the real and the imaginary part. */
    COMPLEX64(13, 8),
    /** Two float64. */
    COMPLEX128(14, 16),
    /** Text and whatever else has no number; from here on elements can be moved, not reduced. */
    BYTES(15, 1),
    /** Two float16. */
    COMPLEX32(16, 4),
    FLOAT8_E3M4(17, 1),
    FLOAT8_E4M3(18, 1),
    FLOAT8_E4M3B11FNUZ(19, 1),
    FLOAT8_E4M3FN(20, 1),
    FLOAT8_E4M3FNUZ(21, 1),
    FLOAT8_E5M2(22, 1),
    FLOAT8_E5M2FNUZ(23, 1),
    FLOAT8_E8M0FNU(24, 1),
    /** Of these five each element has a byte of its own. */
    FLOAT4_E2M1FN(25, 1),
    INT2(26, 1),
    UINT2(27, 1),
    INT4(28, 1),
    UINT4(29, 1);

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
