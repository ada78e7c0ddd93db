// SPDX-License-Identifier: Apache-2.0
package io.hvd;

/** How elements of several ranks become one. */
public enum ReduceOp {
    /** The sum, divided by the size of the process set; integers truncate toward zero; not for bool. */
    AVERAGE(0),
    /** Integers wrap around; for bool it is "or". */
    SUM(1),
    /** Floating dtypes only. */
    ADASUM(2),
    /** NaN if any input is NaN; for bool it is "and". */
    MIN(3),
    /** NaN if any input is NaN; for bool it is "or". */
    MAX(4),
    /** For bool it is "and". */
    PRODUCT(5);

    private final int number;

    ReduceOp(int number) {
        this.number = number;
    }

    /** The number of {@code hvd.h}. */
    public int number() {
        return number;
    }
}
