// SPDX-License-Identifier: Apache-2.0
// One group of a plan on its way through a data plane: builds the work lists from the operations, allocates results whose
// size is known only now, runs the works one after another.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "engine/operation.h"
#include "engine/wire.h"

namespace hvd::engine {

class Execution {
 public:
  // `operations[i]` belongs to group.entries[i]; nullptr where this rank has joined before it came to that one and only
  // lends a hand.
  Execution(const PlanGroup& group, std::span<void* const> operations, int set_size, int my_member,
            std::span<const int> ranks);

  // Allocates and lays out. An error concerns this rank's memory and breaks the context, because others count on us.
  Status prepare();
  // Runs on; kDone once everything has.
  backend::Progress poll(backend::Comm& comm);
  // The member awaited, or -1.
  int waiting_for(const backend::Comm& comm) const { return running_ ? comm.waiting_for() : -1; }

  // The operations of this rank in the group, with the status each ends with.
  const std::vector<Operation*>& operations() const { return operations_; }
  const Status& outcome(size_t index) const { return outcomes_[index]; }
  const Status& failure() const { return failure_; }  // of the data plane
  uint64_t bytes() const { return bytes_; }

 private:
  Status prepare_operation(size_t index);
  Status prepare_allreduce(Operation& operation);
  Status prepare_allgather(size_t index);
  Status prepare_broadcast(Operation& operation);
  Status prepare_alltoall(size_t index);
  Status prepare_reducescatter(Operation& operation);
  void prepare_outline(const PlanEntry& entry);
  // Points tensor.out at `bytes` of fresh memory unless the caller's output fits exactly.
  Status place_output(size_t index, OpTensor& tensor, size_t bytes);
  std::vector<size_t>& parts();
  backend::Work& work_for(DType dtype, backend::Kind kind, ReduceOp op, double prescale, double postscale);
  backend::Work& new_work(backend::Kind kind);
  backend::Item& add_item(size_t work);

  PlanGroup group_;
  std::vector<Operation*> operations_;
  std::vector<size_t> entry_of_;  // per operation: its entry in the group
  std::vector<Status> outcomes_;
  int size_;
  int me_;
  std::vector<int> ranks_;
  std::vector<backend::Work> works_;
  std::deque<std::vector<backend::Item>> items_;    // per work; deque: addresses stay
  std::deque<std::vector<size_t>> parts_;
  size_t next_work_ = 0;
  bool running_ = false;
  Status failure_;
  uint64_t bytes_ = 0;
};

// The factor that turns a sum into an average. For integers it is the smallest double above 1/n, so that multiplying an
// exact multiple of n and truncating never comes out one too low.
double average_factor(DType dtype, double postscale, int n);

}  // namespace hvd::engine
