// SPDX-License-Identifier: Apache-2.0
package io.hvd;

/**
 * An error that the library reports; the message is its own. The subclasses say what is broken: the call, one operation, one
 * process
 * set, or the whole context.
 */
public class HvdException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private final Status status;
    private final int rank;
    private final int sysErrno;

    HvdException(Status status, int rank, int sysErrno, String message) {
        super(message);
        this.status = status;
        this.rank = rank;
        this.sysErrno = sysErrno;
    }

    /** What the library answered. */
    public Status status() {
        return status;
    }

    /** The rank at fault, or -1 if none or unknown. */
    public int rank() {
        return rank;
    }

    /** {@code errno} of a failed system call, or 0. */
    public int sysErrno() {
        return sysErrno;
    }

    static HvdException of(int number, int rank, int sysErrno, String message) {
        Status status = Status.of(number);
        switch (status) {
            case MISMATCH:
                return new HvdMismatchException(rank, sysErrno, message);
            case TIMEOUT:
                return new HvdTimeoutException(rank, sysErrno, message);
            case SET_BROKEN:
                return new HvdSetBrokenException(rank, sysErrno, message);
            case PEER_LOST:
                return new HvdPeerLostException(rank, sysErrno, message);
            case SHUT_DOWN:
                return new HvdShutDownException(rank, sysErrno, message);
            default:
                break;
        }
        if (number <= -60 && number > -80) {
            return new HvdContextException(status, rank, sysErrno, message);
        }
        if (number <= -20 && number > -40) {
            return new HvdOperationException(status, rank, sysErrno, message);
        }
        return number < 0 && number > -20 ? new HvdCallException(status, rank, sysErrno, message)
                : new HvdException(status, rank, sysErrno, message);
    }

    /** The same error for one more caller, with this one's stack. */
    static HvdException again(HvdException first) {
        HvdException error = of(first.status.number(), first.rank, first.sysErrno, first.getMessage());
        error.initCause(first);
        return error;
    }
}
