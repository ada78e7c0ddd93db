// SPDX-License-Identifier: Apache-2.0
package io.hvd;

/** The process set cannot be used any more; other sets can. */
public class HvdSetBrokenException extends HvdException {
    private static final long serialVersionUID = 1L;

    HvdSetBrokenException(int rank, int sysErrno, String message) {
        super(Status.SET_BROKEN, rank, sysErrno, message);
    }
}
