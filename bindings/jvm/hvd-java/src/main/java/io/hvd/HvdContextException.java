// SPDX-License-Identifier: Apache-2.0
package io.hvd;

/** The whole context is broken: close it; a new one may be made in the same process. */
public class HvdContextException extends HvdException {
    private static final long serialVersionUID = 1L;

    HvdContextException(Status status, int rank, int sysErrno, String message) {
        super(status, rank, sysErrno, message);
    }
}
