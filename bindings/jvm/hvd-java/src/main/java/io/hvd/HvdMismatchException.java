// SPDX-License-Identifier: Apache-2.0
package io.hvd;

/** Ranks disagree about an operation; the message has what each said. */
public class HvdMismatchException extends HvdOperationException {
    private static final long serialVersionUID = 1L;

    HvdMismatchException(int rank, int sysErrno, String message) {
        super(Status.MISMATCH, rank, sysErrno, message);
    }
}
