# SPDX-License-Identifier: Apache-2.0
# The checksum of zlib, by any iterator over bytes: part of the vectors and of the jobs of several languages.
function crc32(bytes)
    rest = 0xffffffff
    for byte in bytes
        rest ⊻= byte
        for _ in 1:8
            rest = rest >> 1 ⊻ (isodd(rest) ? 0xedb88320 : 0x00000000)
        end
    end
    return ~rest
end
