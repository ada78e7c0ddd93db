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

// chunks begin at multiples of this: whole elements of any type, whole cache lines
inline constexpr size_t kGrain = 64;

constexpr size_t divide_up(size_t a, size_t b) { return (a + b - 1) / b; }
constexpr size_t round_up(size_t a, size_t to) { return divide_up(a, to) * to; }

// A vector cut into blocks, each block into one chunk per owner.
class Blocks {
 public:
  // The vector is shared out evenly: block b is [b * owners * chunk, ...), chunk after chunk. All
  // blocks but the last are equal, and blocks are no smaller than needed for their number.
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
  // Owner q has [bounds[q], bounds[q + 1]); block b takes the b-th chunk of everyone. `bounds`
  // outlives this.
  static Blocks by_owner(std::span<const size_t> bounds, size_t largest_chunk) {
    Blocks blocks;
    size_t longest = 0;
    for (size_t q = 0; q + 1 < bounds.size(); ++q)
      longest = std::max(longest, bounds[q + 1] - bounds[q]);
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

// The order of the items that a stream carries in one direction when blocks are reduced between
// hosts. Each block is an input and, if `results`, a result. Inputs run ahead of the results by
// `ahead` blocks, so that a block's way there and back is filled with other blocks. The two ends
// know the order without headers.
class StreamOrder {
 public:
  struct Entry {
    bool result;
    size_t block;
  };

  StreamOrder(size_t blocks, size_t ahead, bool results)
      : blocks_(blocks),
        ahead_(results ? std::min(std::max<size_t>(ahead, 1), blocks) : blocks),
        results_(results) {}

  size_t items() const { return results_ ? 2 * blocks_ : blocks_; }
  // Inputs of the first `ahead` blocks; then the result of block k and the input of block k + ahead
  // in turn; then results.
  Entry at(size_t item) const {
    if (item < ahead_) return {false, item};
    const size_t later = item - ahead_;
    const size_t alternating = 2 * (blocks_ - ahead_);
    if (later >= alternating) return {true, later - (blocks_ - ahead_)};
    return {later % 2 == 0, later % 2 == 0 ? later / 2 : ahead_ + later / 2};
  }
  // How many items may move when so many inputs and results may.
  size_t reachable(size_t inputs, size_t results) const {
    const size_t before_input = inputs >= blocks_ ? items()
                                : inputs < ahead_ ? inputs
                                                  : 2 * inputs - ahead_ + 1;
    if (!results_ || results >= blocks_) return before_input;
    return std::min(before_input,
                    results < blocks_ - ahead_ ? ahead_ + 2 * results : blocks_ + results);
  }
  // How many of the first `items` are inputs, or results.
  size_t inputs_in(size_t items) const {
    if (items <= ahead_) return items;
    return std::min(ahead_ + (items - ahead_) / 2, blocks_);
  }
  size_t results_in(size_t items) const { return items - inputs_in(items); }

 private:
  size_t blocks_;
  size_t ahead_;
  bool results_;
};

// Tells which members share a host, and who acts for a member on the hosts where it is not.
class HostMap {
 public:
  // Per member its host; hosts are counted from 0.
  HostMap(std::span<const int> host_of, int hosts);

  int hosts() const { return static_cast<int>(members_.size()); }
  int host(int member) const { return host_of_[static_cast<size_t>(member)]; }
  const std::vector<int>& members(int host) const { return members_[static_cast<size_t>(host)]; }
  // index among the members of its host
  int place(int member) const { return place_[static_cast<size_t>(member)]; }
  // members of the smallest host
  int smallest() const { return smallest_; }
  // every member has a host to itself
  bool alone() const { return host_of_.size() == members_.size(); }
  // The member of `host` that handles there what belongs to `member`: itself on its own host.
  int proxy(int host, int member) const {
    const std::vector<int>& there = members(host);
    return there[static_cast<size_t>(place(member)) % there.size()];
  }
  // The members on other hosts for which `member` is the proxy, ascending.
  std::vector<int> wards(int member) const;

 private:
  std::vector<int> host_of_;
  std::vector<std::vector<int>> members_;
  std::vector<int> place_;
  int smallest_ = 0;
};

// The hosts' tree or chain of a broadcast. Hosts are counted from the root's, which is 0.
int broadcast_parent(int host, bool chain);  // for any host but 0
// the child with the most below it first
std::vector<int> broadcast_children(int host, int hosts, bool chain);

// The weights with which Adasum adds the vectors of the members, from their inner products
// (row-major, n x n). Active members, in order, are combined in pairs at distance 1, then 2, 4,
// ...; a member without a partner waits for the next distance. Inactive members get weight 0.
// weights: n values.
void adasum_weights(const double* gram, const std::vector<bool>& active, double* weights);

}  // namespace hvd::collectives
