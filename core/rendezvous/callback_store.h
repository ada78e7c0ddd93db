// SPDX-License-Identifier: Apache-2.0
// A store that the caller of the library provides.
#pragma once

#include <algorithm>
#include <functional>
#include <utility>

#include "rendezvous/entry.h"
#include "rendezvous/store.h"

namespace hvd::rendezvous {

// All four must be callable.
struct StoreCallbacks {
  std::function<Status(const std::string& key, const std::string& value)> set;
  // Waits at most `wait`; kForever is possible.
  std::function<Result<std::string>(const std::string& key, Duration wait)> get;
  std::function<Result<int64_t>(const std::string& key, int64_t delta)> add;
  std::function<Status(const std::string& key)> remove;
};

// Checks keys and values before they reach the callbacks and gives a missing key the same words as
// any other store.
class CallbackStore final : public Store {
 public:
  explicit CallbackStore(StoreCallbacks callbacks) : callbacks_(std::move(callbacks)) {}

  Status set(const std::string& key, const std::string& value) override {
    HVD_TRY(check_entry(key, value));
    return callbacks_.set(key, value);
  }
  Result<std::string> get(const std::string& key, Time deadline) override {
    HVD_TRY(check_key(key));
    const Time start = now();
    const Duration wait =
        deadline == kNever ? kForever : std::max(deadline - start, Duration::zero());
    Result<std::string> value = callbacks_.get(key, wait);
    if (value.status().code() == Code::kTimeout) return did_not_appear(key, now() - start);
    return value;
  }
  Result<int64_t> add(const std::string& key, int64_t delta) override {
    HVD_TRY(check_key(key));
    return callbacks_.add(key, delta);
  }
  Status remove(const std::string& key) override {
    HVD_TRY(check_key(key));
    return callbacks_.remove(key);
  }

 private:
  const StoreCallbacks callbacks_;
};

}  // namespace hvd::rendezvous
