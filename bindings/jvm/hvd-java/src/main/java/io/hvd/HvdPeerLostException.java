// SPDX-License-Identifier: Apache-2.0
package io.hvd;

import java.util.Optional;
import java.util.OptionalLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A rank died or closed its connection; {@link #rank()} says which. */
public class HvdPeerLostException extends HvdContextException {
    private static final long serialVersionUID = 1L;
    private static final Pattern PLACE = Pattern.compile("rank (\\d+) \\(host (.*?), pid (\\d+)\\)");

    HvdPeerLostException(int rank, int sysErrno, String message) {
        super(Status.PEER_LOST, rank, sysErrno, message);
    }

    /** The host of the lost rank, if the message has it. */
    public Optional<String> host() {
        Matcher place = PLACE.matcher(getMessage());
        return place.find() ? Optional.of(place.group(2)) : Optional.empty();
    }

    /** The process of the lost rank, if the message has it. */
    public OptionalLong pid() {
        Matcher place = PLACE.matcher(getMessage());
        return place.find() ? OptionalLong.of(Long.parseLong(place.group(3))) : OptionalLong.empty();
    }
}
