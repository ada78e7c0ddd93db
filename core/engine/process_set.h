// SPDX-License-Identifier: Apache-2.0
// A process set as its users see it. SetEngine does the engine's work for the set.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/eager.h"
#include "negotiation/arrivals.h"

namespace hvd::engine {

class Engine;
class Operation;

struct ProcessSet {
  std::weak_ptr<Engine> engine;
  uint32_t serial = 0;          // never used twice; 0 is the world
  std::atomic<int32_t> id{-1};  // -1: not open yet, or destroyed
  std::vector<int> ranks;       // ascending
  int me = -1;                  // member index of this rank, -1 if no member
  // per member: contributions with the same number are put together first; empty: all at once
  std::vector<int> hosts;
  // On the coordinator, once the set is open; else empty.
  std::atomic<std::shared_ptr<const negotiation::Arrivals>> arrivals;
  EagerLimit eager;  // payloads up to this size travel inside the announcement

  // Guarded by the mutex of SubmitQueue.
  using Names = std::unordered_map<std::string_view, Operation*>;
  Names in_flight;                             // views into Operation::name
  std::vector<Names::node_type> unused_names;  // nodes kept for their memory
  uint64_t next_unnamed = 0;
  bool joining = false;  // a join of this rank is in flight

  int size() const { return static_cast<int>(ranks.size()); }
};

}  // namespace hvd::engine
