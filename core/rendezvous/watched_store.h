// SPDX-License-Identifier: Apache-2.0
// A store in which members of an elastic job wait for each other: waiting ends early when the
// launcher says that one of them is lost, whatever its rank has told the store by then.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "rendezvous/membership.h"
#include "rendezvous/store.h"

namespace hvd::rendezvous {

class WatchedStore final : public Store {
 public:
  WatchedStore(std::shared_ptr<Store> store, std::shared_ptr<Membership> membership)
      : store_(std::move(store)), membership_(std::move(membership)) {}

  Status set(const std::string& key, const std::string& value) override {
    return store_->set(key, value);
  }
  Result<std::string> get(const std::string& key, Time deadline) override {
    for (;;) {
      const Time look = std::min(deadline, now() + kLook);
      Result<std::string> value = store_->get(key, look);
      if (value.ok() || value.status().code() != Code::kTimeout) return value;
      HVD_TRY(membership_->lost());
      if (look == deadline) return value;
    }
  }
  Result<int64_t> add(const std::string& key, int64_t delta) override {
    return store_->add(key, delta);
  }
  Status remove(const std::string& key) override { return store_->remove(key); }

 private:
  static constexpr Duration kLook = std::chrono::milliseconds(20);

  const std::shared_ptr<Store> store_;
  const std::shared_ptr<Membership> membership_;
};

}  // namespace hvd::rendezvous
