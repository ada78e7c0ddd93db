// SPDX-License-Identifier: Apache-2.0
// One group of a plan on its way through a data plane: builds the work lists from the operations,
// allocates results whose size is known only now, runs the works one after another.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "engine/device_plane.h"
#include "engine/operation.h"
#include "negotiation/wire.h"

namespace hvd::engine {

class Execution {
 public:
  Execution(int set_size, int my_member, const std::vector<int>& ranks)
      : size_(set_size), me_(my_member), ranks_(ranks) {}

  // Allocates and lays out; may be called again when everything has run. `operations[i]` belongs to
  // group.entries[i]; nullptr where this rank has joined before it came to that entry and only
  // lends a hand. An error concerns this rank's memory and breaks the context, because others count
  // on us. `plane`: the device plane of the set, for groups whose path is the device.
  Status prepare(const negotiation::PlanGroup& group, std::span<void* const> operations,
                 DevicePlane& plane);
  // Called instead of prepare(): the members of `plane`, the world's plane, split off what connects
  // the devices of the set that they create.
  void prepare_split(Operation& confirming, DevicePlane& plane);
  // Runs on; kDone once everything has.
  backend::Progress poll(backend::Comm& comm);
  // The member awaited, or -1.
  int waiting_for(const backend::Comm& comm) const {
    return running_ && !direct_ ? comm.waiting_for() : -1;
  }
  // Whether the members are to meet on their devices first.
  bool meets() const { return meets_; }
  // The device of the first operation that is on a device, else nullptr.
  device::Device* device() const { return staged_.empty() ? nullptr : &staged_[0]->device(); }
  // Ends the group with an error of its data plane.
  backend::Progress fail(Status why) {
    failure_ = std::move(why);
    return backend::Progress::kDone;
  }
  // Whether the group runs from device to device, in which case nothing announces the progress.
  bool direct() const { return direct_ != nullptr; }

  // The operations of this rank in the group, with the status each ends with.
  const std::vector<Operation*>& operations() const { return operations_; }
  const Status& outcome(size_t index) const { return outcomes_[index]; }
  // the data plane's error; names this rank if its device failed
  const Status& failure() const { return failure_; }
  uint64_t bytes() const { return bytes_; }
  // When this rank learned of the group, in ticks.
  uint64_t agreed() const { return agreed_; }

 private:
  void reset();
  void begin(const negotiation::PlanGroup& group, std::span<void* const> operations);
  Status prepare_operation(size_t index);
  Status prepare_allreduce(Operation& operation);
  Status prepare_allgather(size_t index);
  Status prepare_broadcast(Operation& operation);
  Status prepare_alltoall(size_t index);
  Status prepare_gather(size_t index);
  template <class RowsBetween>
  Status prepare_exchange(size_t index, const RowsBetween& rows);
  Status prepare_reducescatter(Operation& operation);
  void prepare_outline(const negotiation::PlanEntry& entry);
  // Points tensor.out at `bytes` of fresh memory unless the caller's output fits exactly.
  Status place_output(size_t index, OpTensor& tensor, size_t bytes);
  Status place_gathered(size_t index, OpTensor& tensor, size_t bytes, size_t offset,
                        size_t own_bytes);
  // The layout of a tensor's bytes in host memory that stands for a device's memory.
  struct Layout {
    size_t in_bytes = 0;
    size_t in_at = 0;
    size_t out_bytes = 0;
    size_t out_at = 0;
  };
  // Points the item at the caller's memory, or at host memory where the tensor is on a device.
  Status place(Operation& operation, const OpTensor& tensor, const Layout& layout,
               backend::Item& item);
  // execution_device.cc
  bool can_go_direct(const DevicePlane& plane) const;
  bool stays(const Operation& operation, const OpTensor& tensor, const Layout& layout) const;
  Status load_inputs();
  Result<bool> inputs_ready();
  Status give_results();
  backend::Progress poll_split();
  backend::Progress fail_here(Status why);  // `why` is an error of this rank's device
  backend::Progress fail_in_work(Status why);
  size_t add_parts();  // index of a new list in parts_
  size_t member_of(int32_t rank) const;
  backend::Work reduction(backend::Kind kind, const negotiation::ReductionOutline& asked) const;
  backend::Work& work_for(backend::Kind kind, const negotiation::ReductionOutline& asked);
  backend::Work& new_work(backend::Kind kind);
  backend::Item& add_item(size_t work);

  const negotiation::PlanGroup* group_ = nullptr;  // during prepare()
  std::vector<Operation*> operations_;
  std::vector<size_t> entry_of_;  // per operation the index of its entry in the group
  std::vector<Status> outcomes_;
  int size_;
  int me_;
  const std::vector<int>& ranks_;  // the ranks of the set, which outlives its executions
  std::vector<backend::Work> works_;
  std::vector<std::vector<backend::Item>> items_;  // per work
  // Spans point to the inner vectors' elements, which stay where they are when the outer one grows.
  std::vector<std::vector<size_t>> parts_;
  size_t next_work_ = 0;
  std::vector<device::Staging*> staged_;  // staging of the operations on devices
  DevicePlane* direct_ = nullptr;         // set if the group runs from device to device
  bool meets_ = false;
  DevicePlane* splits_ = nullptr;  // set if the group is the creation of a set
  size_t loaded_ = 0;              // how many of staged_ have their input in host memory
  bool running_ = false;
  Status failure_;
  uint64_t bytes_ = 0;
  uint64_t agreed_ = 0;
};

// The factor that turns a sum into an average. For integers 1/n alone divides exactly
// (kernels/reduce.h); together with another factor it is the smallest double above, so that an
// exact result never comes out one too low after truncation.
double average_factor(DType dtype, double postscale, int n);

}  // namespace hvd::engine
