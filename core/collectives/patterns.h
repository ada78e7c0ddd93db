// SPDX-License-Identifier: Apache-2.0
// Who handles which bytes when: pure index arithmetic.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/virtual_vector.h"

namespace hvd::collectives {

inline constexpr size_t kGrain = 64;  // chunks begin at multiples of this: whole elements of any type, whole cache lines

constexpr size_t divide_up(size_t a, size_t b) { return (a + b - 1) / b; }
constexpr size_t round_up(size_t a, size_t to) { return divide_up(a, to) * to; }

// A vector cut into blocks, each block into one chunk per owner.
class Blocks {
 public:
  // The vector is shared out evenly: block b is [b * owners * chunk, ...), chunk after chunk. All blocks but the last are
  // equal, and blocks are no smaller than needed for their number.
  static Blocks interleaved(size_t total, int owners, size_t largest_chunk) {
    const size_t n = static_cast<size_t>(owners);
    Blocks blocks;
    blocks.total_ = total;
    blocks.owners_ = n;
    blocks.count_ = divide_up(total, n * largest_chunk);
    if (blocks.count_ != 0) blocks.chunk_ = round_up(divide_up(total, blocks.count_ * n), kGrain);
    if (blocks.count_ != 0) blocks.count_ = divide_up(total, blocks.chunk_ * n);
    return blocks;
  }
  // Owner q has [bounds[q], bounds[q + 1]); block b takes the b-th chunk of everyone. `bounds` outlives this.
  static Blocks by_owner(std::span<const size_t> bounds, size_t largest_chunk) {
    Blocks blocks;
    size_t longest = 0;
    for (size_t q = 0; q + 1 < bounds.size(); ++q) longest = std::max(longest, bounds[q + 1] - bounds[q]);
    blocks.bounds_ = bounds;
    blocks.count_ = divide_up(longest, largest_chunk);
    if (blocks.count_ != 0) blocks.chunk_ = round_up(divide_up(longest, blocks.count_), kGrain);
    return blocks;
  }

  size_t count() const { return count_; }
  size_t chunk() const { return chunk_; }  // at most largest_chunk
  Range range(size_t block, int owner) const {
    const size_t q = static_cast<size_t>(owner);
    if (!bounds_.empty()) {
      const size_t begin = std::min(bounds_[q] + block * chunk_, bounds_[q + 1]);
      return {begin, std::min(begin + chunk_, bounds_[q + 1])};
    }
    const size_t begin = std::min((block * owners_ + q) * chunk_, total_);
    return {begin, std::min(begin + chunk_, total_)};
  }

 private:
  size_t count_ = 0;
  size_t chunk_ = 0;
  size_t total_ = 0;
  size_t owners_ = 0;
  std::span<const size_t> bounds_;
};

// The weights with which Adasum adds the vectors of the members, from their inner products (row-major, n x n). Active
// members, in order, are combined in pairs at distance 1, then 2, 4, ...; one without a partner waits for the next distance.
// Inactive members get weight 0. weights: n values.
void adasum_weights(const double* gram, const std::vector<bool>& active, double* weights);

}  // namespace hvd::collectives
