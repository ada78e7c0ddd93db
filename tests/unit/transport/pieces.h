// SPDX-License-Identifier: Apache-2.0
// Bytes offered in pieces, as collectives offer theirs.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <vector>

namespace hvd::transport::testing {

// Up to four pieces of random length, some empty, from `at` on.
inline std::vector<iovec> pieces_of(std::vector<std::byte>& bytes, size_t at,
                                    std::minstd_rand& random) {
  std::vector<iovec> pieces;
  for (int i = 0; i < 4; ++i) {
    const size_t length =
        std::min<size_t>(random() % 3 == 0 ? random() % 5 : random() % 200000, bytes.size() - at);
    pieces.push_back({bytes.data() + at, length});
    at += length;
  }
  return pieces;
}

}  // namespace hvd::transport::testing
