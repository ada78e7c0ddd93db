// SPDX-License-Identifier: Apache-2.0
package io.hvd;

/**
 * The members of an elastic job ({@code horovodrun --min-np}), as far as a rank knows.
 *
 * @param epoch counts the memberships of the job from 1; 0 where members are fixed
 * @param removed members are about to go
 * @param added members are about to come
 * @param synchronize states of members differ, and all take over that of rank 0
 */
public record Membership(long epoch, boolean removed, boolean added, boolean synchronize) {
    static Membership read(long pointer, Scratch s) {
        int place = s.take(Raw.SIZEOF_hvd_membership);
        s.bytes.putInt(place + Raw.OFFSETOF_hvd_membership_struct_size, Raw.SIZEOF_hvd_membership);
        s.check(Raw.hvd_membership_get(pointer, s.base + place, s.error()));
        int changes = s.bytes.getInt(place + Raw.OFFSETOF_hvd_membership_changes);
        return new Membership(s.bytes.getLong(place + Raw.OFFSETOF_hvd_membership_epoch),
                (changes & Raw.HVD_MEMBERS_REMOVED) != 0, (changes & Raw.HVD_MEMBERS_ADDED) != 0,
                s.bytes.getInt(place + Raw.OFFSETOF_hvd_membership_synchronize) != 0);
    }

    /** The announced changes as the numbers of {@code hvd.h}. */
    int changes() {
        return (removed ? Raw.HVD_MEMBERS_REMOVED : 0) | (added ? Raw.HVD_MEMBERS_ADDED : 0);
    }
}
