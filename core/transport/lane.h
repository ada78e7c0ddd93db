// SPDX-License-Identifier: Apache-2.0
// The data plane of one process set as one rank sees it: shared memory with the members on this
// host, a stream to each member on other hosts. Collectives are written against this interface and
// never see sockets or segments.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "transport/stream.h"

namespace hvd::transport {

// Rings the bell of ranks on this host that have stopped looking at memory.
class Doorbell {
 public:
  virtual ~Doorbell() = default;
  // Called after a store that the members on this host may be waiting for. Costs a fence and one
  // load per member unless one of them sleeps.
  virtual void ring_sleepers() noexcept = 0;
};

// Owned by the process set; all of it is used by the thread that drives the engine.
struct Lane {
  int id = 0;
  std::vector<int> ranks;  // members, ascending: index in here = member index
  int me = 0;              // my member index
  std::vector<int> local;  // member indices on my host, ascending
  int me_local = 0;        // my place in `local`
  // per member: host number within this lane, counted from 0 by first member
  std::vector<int> host_of;
  int hosts = 1;
  // the same bytes for all of `local`; all zero when the lane opens; 4096-aligned
  std::span<std::byte> memory;
  Doorbell* bell = nullptr;                      // never null once opened
  std::vector<std::unique_ptr<Stream>> streams;  // per member; null for members on this host
  std::shared_ptr<void> mapping;                 // keeps `memory` mapped

  int size() const { return static_cast<int>(ranks.size()); }
};

}  // namespace hvd::transport
