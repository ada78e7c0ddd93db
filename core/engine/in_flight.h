// SPDX-License-Identifier: Apache-2.0
// All operations of a context that have not ended. The operations themselves hold the list
// together, so keeping the list needs no memory: the list is left to go by when there was no memory
// for something else.
#pragma once

#include "engine/operation.h"

namespace hvd::engine {

class InFlight {
 public:
  void add(Operation& operation) noexcept {
    operation.next_in_flight = first_;
    operation.link_in_flight = &first_;
    if (first_ != nullptr) first_->link_in_flight = &operation.next_in_flight;
    first_ = &operation;
  }
  void remove(Operation& operation) noexcept {
    *operation.link_in_flight = operation.next_in_flight;
    if (operation.next_in_flight != nullptr)
      operation.next_in_flight->link_in_flight = operation.link_in_flight;
    operation.next_in_flight = nullptr;
    operation.link_in_flight = nullptr;
  }
  Operation* first() const noexcept { return first_; }

 private:
  Operation* first_ = nullptr;
};

}  // namespace hvd::engine
