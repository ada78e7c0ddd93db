// SPDX-License-Identifier: Apache-2.0
// A fast 128-bit fingerprint of a byte string. The fingerprint is not cryptographic and guards
// against mistakes only; attackers are kept out at the connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace hvd {

struct Fingerprint {
  uint64_t high = 0;
  uint64_t low = 0;
  bool operator==(const Fingerprint&) const = default;
};

namespace hash_detail {
// Full 64x64->128 multiplication folded to 64 bits: every input bit reaches every output bit.
inline uint64_t fold(uint64_t a, uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}
}  // namespace hash_detail

inline Fingerprint fingerprint(std::span<const std::byte> bytes, uint64_t seed = 0) {
  using hash_detail::fold;
  constexpr uint64_t k0 = 0x9e3779b97f4a7c15, k1 = 0xc2b2ae3d27d4eb4f, k2 = 0x165667b19e3779f9,
                     k3 = 0xd6e8feb86659fd93;
  uint64_t a = seed ^ k0;
  uint64_t b = bytes.size() ^ k1;
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 16; left -= 16, at += 16) {
    uint64_t x = 0, y = 0;
    std::memcpy(&x, at, 8);
    std::memcpy(&y, at + 8, 8);
    a = fold(a ^ x, k2 ^ y);
    b = fold(b + y, k3 ^ x) + a;
  }
  uint64_t tail[2] = {};
  if (left > 0) std::memcpy(tail, at, left);
  a = fold(a ^ tail[0], k2 ^ tail[1]);
  b = fold(b + tail[1], k3 ^ tail[0]) + a;
  return {fold(a ^ k1, b ^ k3), fold(b ^ k0, a ^ k2)};
}

}  // namespace hvd
