// SPDX-License-Identifier: Apache-2.0
package io.hvd;

import java.nio.charset.StandardCharsets;

/** Text on both sides of the boundary. */
final class Native {
    private Native() {}

    /** As the library takes it, without the NUL that ends it there. */
    static byte[] bytes(String text) {
        if (text.indexOf('\0') >= 0) {
            throw new IllegalArgumentException("text: has a NUL character at index " + text.indexOf('\0'));
        }
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** The C string at this address; null for 0. */
    static String text(long address) {
        byte[] found = RawJNI.text(address);
        return found == null ? null : new String(found, StandardCharsets.UTF_8);
    }
}
