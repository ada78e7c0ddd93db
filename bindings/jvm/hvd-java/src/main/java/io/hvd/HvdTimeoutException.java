// SPDX-License-Identifier: Apache-2.0
package io.hvd;

/** The operation's time ran out; the message names the missing ranks. */
public class HvdTimeoutException extends HvdOperationException {
    private static final long serialVersionUID = 1L;

    HvdTimeoutException(int rank, int sysErrno, String message) {
        super(Status.TIMEOUT, rank, sysErrno, message);
    }
}
