// SPDX-License-Identifier: Apache-2.0
package io.hvd;

/** The call was wrong, and nothing happened; correct it and go on. {@link #status()} says in which way. */
public class HvdCallException extends HvdException {
    private static final long serialVersionUID = 1L;

    HvdCallException(Status status, int rank, int sysErrno, String message) {
        super(status, rank, sysErrno, message);
    }
}
