// SPDX-License-Identifier: Apache-2.0
package io.hvd;

/** What the library answers, by what is broken; the numbers are those of {@code hvd.h}. */
public enum Status {
    OK(0),
    PENDING(1),
    INVALID_ARGUMENT(-1),
    INVALID_STATE(-2),
    NOT_FOUND(-3),
    ALREADY_EXISTS(-4),
    UNSUPPORTED(-5),
    VERSION(-6),
    OUT_OF_MEMORY(-7),
    WOULD_DEADLOCK(-8),
    MISMATCH(-20),
    CANCELLED(-21),
    TIMEOUT(-22),
    SET_BROKEN(-40),
    PEER_LOST(-60),
    SHUT_DOWN(-62),
    IO(-63),
    DISMISSED(-64),
    INTERNAL(-80);

    private final int number;

    Status(int number) {
        this.number = number;
    }

    /** The number of {@code hvd.h}. */
    public int number() {
        return number;
    }

    /** The name of {@code hvd.h}: {@code HVD_ERR_MISMATCH}. */
    public String nativeName() {
        return number >= 0 ? "HVD_" + name() : "HVD_ERR_" + name();
    }

    /** The status with this number; {@link #INTERNAL} for one that this binding does not know. */
    public static Status of(int number) {
        for (Status status : values()) {
            if (status.number == number) {
                return status;
            }
        }
        return INTERNAL;
    }
}
