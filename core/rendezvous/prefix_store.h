// SPDX-License-Identifier: Apache-2.0
// A part of another store: every key gets a prefix.
#pragma once

#include <memory>
#include <utility>

#include "rendezvous/store.h"

namespace hvd::rendezvous {

class PrefixStore final : public Store {
 public:
  PrefixStore(std::shared_ptr<Store> store, std::string prefix)
      : store_(std::move(store)), prefix_(std::move(prefix)) {}

  Status set(const std::string& key, const std::string& value) override {
    return store_->set(prefix_ + key, value);
  }
  Result<std::string> get(const std::string& key, Time deadline) override {
    return store_->get(prefix_ + key, deadline);
  }
  Result<int64_t> add(const std::string& key, int64_t delta) override {
    return store_->add(prefix_ + key, delta);
  }
  Status remove(const std::string& key) override { return store_->remove(prefix_ + key); }

 private:
  const std::shared_ptr<Store> store_;
  const std::string prefix_;
};

}  // namespace hvd::rendezvous
