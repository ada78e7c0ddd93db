// SPDX-License-Identifier: Apache-2.0
package io.hvd;

/** One operation failed, on every rank that submitted it. The process set is still usable. */
public class HvdOperationException extends HvdException {
    private static final long serialVersionUID = 1L;

    HvdOperationException(Status status, int rank, int sysErrno, String message) {
        super(status, rank, sysErrno, message);
    }
}
