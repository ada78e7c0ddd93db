// SPDX-License-Identifier: Apache-2.0
package io.hvd;

/** How often this rank has seen which values. */
public final class Histogram {
    /** The number of {@link #buckets}. */
    static final int BUCKETS = 64;

    /** "operation_duration" and the like. */
    public final String name;

    /** "1", "bytes" or "ns". */
    public final String unit;

    /** How many values there were. */
    public final long count;

    /** Of all values, in the unit. */
    public final long sum;

    /** At index i the number of values of at most 2^i that are not counted before; the last one counts all the rest. */
    public final long[] buckets = new long[BUCKETS];

    /** Reads the struct that lies at a place of the scratch memory. */
    Histogram(Scratch s, int at) {
        name = Native.text(s.bytes.getLong(at + Raw.OFFSETOF_hvd_histogram_name));
        unit = Native.text(s.bytes.getLong(at + Raw.OFFSETOF_hvd_histogram_unit));
        count = s.bytes.getLong(at + Raw.OFFSETOF_hvd_histogram_value_count);
        sum = s.bytes.getLong(at + Raw.OFFSETOF_hvd_histogram_sum);
        for (int i = 0; i < BUCKETS; ++i) {
            buckets[i] = s.bytes.getLong(at + Raw.OFFSETOF_hvd_histogram_buckets + i * Long.BYTES);
        }
    }
}
