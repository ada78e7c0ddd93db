// SPDX-License-Identifier: Apache-2.0
// What the ranks of a comm have queued together, and its result.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace fake_nccl {

enum class Kind { kAllReduce, kReduce, kReduceScatter, kBroadcast, kAllGather, kSend, kReceive };

// One call of one rank.
struct Call {
  Kind kind = Kind::kAllReduce;
  const void* in = nullptr;
  void* out = nullptr;
  size_t count = 0;
  int dtype = 0;
  int op = 0;           // sum, product, max, min
  double factor = 1.0;  // that a sum's inputs are multiplied with
  int peer = -1;        // root, or the other rank

  std::string text() const;
  // Elements that this rank reads, and writes, as member `rank` of `size`.
  size_t reads(int rank, int size) const;
  size_t writes(int rank, int size) const;
};

size_t size_of(int dtype);
// The number of that type there.
double scalar(const void* at, int dtype);
// Reads and writes memory of devices, and of the host if it is locked. Null if it is neither, or
// too short.
std::byte* resolve(const void* memory, size_t bytes);
// Runs what each rank has queued; empty, or what does not fit: then nothing has been written.
std::string run(const std::vector<std::vector<Call>>& calls);
// What an aborted step leaves.
void spoil(const std::vector<Call>& calls, int rank, int size);

}  // namespace fake_nccl
