// SPDX-License-Identifier: Apache-2.0
package io.hvd;

/** This rank or another one has shut down. */
public class HvdShutDownException extends HvdContextException {
    private static final long serialVersionUID = 1L;

    HvdShutDownException(int rank, int sysErrno, String message) {
        super(Status.SHUT_DOWN, rank, sysErrno, message);
    }
}
