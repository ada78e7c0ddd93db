// SPDX-License-Identifier: Apache-2.0
// The key-value store through which ranks find each other. Used during start-up only, from one
// thread at a time.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/status.h"

namespace hvd::rendezvous {

class Store {
 public:
  virtual ~Store() = default;
  // Replaces an older value.
  virtual Status set(const std::string& key, const std::string& value) = 0;
  // Waits until the key exists; kTimeout at the deadline (message: `key "x" did not appear in N
  // s`).
  virtual Result<std::string> get(const std::string& key, Time deadline) = 0;
  // Atomic among all ranks; counters start at 0; returns the sum.
  virtual Result<int64_t> add(const std::string& key, int64_t delta) = 0;
  // Removing an absent key is ok.
  virtual Status remove(const std::string& key) = 0;
};

}  // namespace hvd::rendezvous
