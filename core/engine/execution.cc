// SPDX-License-Identifier: Apache-2.0
#include "engine/execution.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "base/ticks.h"
namespace hvd::engine {

using backend::Item;
using backend::Kind;
using backend::Progress;
using backend::Work;

double average_factor(DType dtype, double postscale, int n) {
  const double factor = postscale / n;
  if (dtype_floating(dtype) || dtype_complex(dtype) || n == 1 || postscale == 1.0) return factor;
  return std::nextafter(factor, factor < 0 ? -std::numeric_limits<double>::infinity()
                                           : std::numeric_limits<double>::infinity());
}

// Empties what the last group left, keeping the memory.
void Execution::reset() {
  group_ = nullptr;
  operations_.clear();
  entry_of_.clear();
  outcomes_.clear();
  works_.clear();
  for (std::vector<Item>& items : items_) items.clear();
  parts_.clear();
  next_work_ = 0;
  staged_.clear();
  direct_ = nullptr;
  meets_ = false;
  splits_ = nullptr;
  loaded_ = 0;
  running_ = false;
  failure_ = {};
  bytes_ = 0;
}

void Execution::begin(const negotiation::PlanGroup& group, std::span<void* const> operations) {
  reset();
  agreed_ = ticks();
  group_ = &group;
  meets_ = group.path == negotiation::Path::kMeet;
  for (size_t i = 0; i < operations.size(); ++i) {
    if (operations[i] == nullptr) continue;
    operations_.push_back(static_cast<Operation*>(operations[i]));
    entry_of_.push_back(i);
  }
  outcomes_.resize(operations_.size());
}

Status Execution::prepare(const negotiation::PlanGroup& group, std::span<void* const> operations,
                          DevicePlane& plane) {
  begin(group, operations);
  if (group.path == negotiation::Path::kDevice && can_go_direct(plane)) direct_ = &plane;
  size_t index = 0;
  for (size_t entry = 0; entry < group_->entries.size(); ++entry) {
    if (index < operations_.size() && entry_of_[index] == entry) {
      HVD_TRY(prepare_operation(index++));
    } else {
      prepare_outline(group_->entries[entry]);
    }
  }
  for (size_t w = 0; w < works_.size(); ++w) {
    works_[w].items = items_[w];
    for (const Item& item : items_[w]) bytes_ += item.count * dtype_size(works_[w].dtype);
  }
  return load_inputs();
}

Status Execution::prepare_operation(size_t index) {
  Operation& operation = *operations_[index];
  if (operation.staging) staged_.push_back(operation.staging.get());
  switch (operation.kind) {
    case OpKind::kAllreduce: return prepare_allreduce(operation);
    case OpKind::kAllgather: return prepare_allgather(index);
    case OpKind::kBroadcast: return prepare_broadcast(operation);
    case OpKind::kAlltoall: return prepare_alltoall(index);
    case OpKind::kReducescatter: return prepare_reducescatter(operation);
    case OpKind::kGather: return prepare_gather(index);
    case OpKind::kJoin: {
      const std::vector<int64_t>& said = group_->entries[entry_of_[index]].variable;
      operation.last_joined = said.empty() ? -1 : static_cast<int32_t>(said[0]);
      return {};
    }
    default: return {};
  }
}

// The work that collects tensors of this dtype; operations of a group share it.
Work& Execution::work_for(Kind kind, const negotiation::ReductionOutline& asked) {
  const Work wanted = reduction(kind, asked);
  for (Work& work : works_) {
    if (work.kind == kind && work.dtype == wanted.dtype && work.op == wanted.op &&
        work.prescale == wanted.prescale && work.postscale == wanted.postscale) {
      return work;
    }
  }
  Work& work = new_work(kind);
  work = wanted;
  return work;
}

Work Execution::reduction(Kind kind, const negotiation::ReductionOutline& asked) const {
  Work work;
  work.kind = kind;
  work.dtype = asked.dtype;
  const bool average = asked.op == ReduceOp::kAverage;
  work.op = average ? ReduceOp::kSum : asked.op;
  work.prescale = asked.prescale;
  work.postscale = average ? average_factor(asked.dtype, asked.postscale, size_) : asked.postscale;
  return work;
}

// Adds a work of its own, a work of bytes until the caller says otherwise.
Work& Execution::new_work(Kind kind) {
  Work& work = works_.emplace_back();
  if (items_.size() < works_.size()) items_.emplace_back();
  work.kind = kind;
  return work;
}

Item& Execution::add_item(size_t work) { return items_[work].emplace_back(); }

size_t Execution::add_parts() {
  parts_.emplace_back();
  return parts_.size() - 1;
}

Status Execution::place_output(size_t index, OpTensor& tensor, size_t bytes) {
  if (tensor.caller_output) {
    if (tensor.out_bytes == bytes) return {};
    // The others count on us, so the data moves all the same, into memory of our own.
    outcomes_[index] =
        Status(Code::kInvalidArgument, operations_[index]->subject() + ": output has " +
                                           std::to_string(tensor.out_bytes) +
                                           " bytes, result has " + std::to_string(bytes));
  }
  if (operations_[index]->staging) {
    // Without a place for the result on the device, the result stays in host memory: the others get
    // theirs, and this operation ends with an error.
    Result<void*> memory = outcomes_[index].ok() ? operations_[index]->staging->allocate(bytes)
                                                 : Result<void*>(nullptr);
    if (!memory.ok()) outcomes_[index] = operations_[index]->worded(memory.status());
    tensor.out = memory.ok() ? memory.value() : nullptr;
    return {};
  }
  return operations_[index]->own_output(tensor, bytes);
}

// In place means exactly at this rank's part. Any other overlap would destroy input before it is
// read.
Status Execution::place_gathered(size_t index, OpTensor& tensor, size_t bytes, size_t offset,
                                 size_t own_bytes) {
  const auto* in = static_cast<const std::byte*>(tensor.in);
  const auto* out = static_cast<const std::byte*>(tensor.out);
  const bool overlaps =
      tensor.caller_output && own_bytes > 0 && in < out + bytes && out < in + own_bytes;
  if (overlaps && tensor.out_bytes == bytes && in != out + offset) {
    outcomes_[index] =
        Status(Code::kInvalidArgument, operations_[index]->subject() +
                                           ": output overlaps the input without being in place");
    tensor.caller_output = false;
  }
  return place_output(index, tensor, bytes);
}

Status Execution::prepare_allreduce(Operation& operation) {
  for (OpTensor& tensor : operation.tensors) {
    const Work& work = work_for(
        Kind::kAllreduce, {tensor.dtype, operation.op, operation.prescale, operation.postscale});
    Item& item = add_item(static_cast<size_t>(&work - works_.data()));
    item.count = tensor.count();
    const size_t bytes = item.count * dtype_size(tensor.dtype);
    HVD_TRY(place(operation, tensor, {bytes, 0, bytes, 0}, item));
  }
  return {};
}

void Execution::prepare_outline(const negotiation::PlanEntry& entry) {
  const Work& work = work_for(Kind::kAllreduce, group_->outline);
  for (const uint64_t count : entry.counts)
    add_item(static_cast<size_t>(&work - works_.data())).count = count;
}

Status Execution::prepare_allgather(size_t index) {
  Operation& operation = *operations_[index];
  const std::vector<int64_t>& rows = group_->entries[entry_of_[index]].variable;
  const size_t tensors = operation.tensors.size();
  if (rows.size() != tensors * static_cast<size_t>(size_)) {
    return Status(Code::kInternal, operation.subject() + ": plan lacks row counts");
  }
  const size_t work = works_.size();
  new_work(Kind::kAllgather);
  for (size_t t = 0; t < tensors; ++t) {
    OpTensor& tensor = operation.tensors[t];
    std::vector<size_t>& bytes_of = parts_[add_parts()];
    int64_t total_rows = 0;
    for (int member = 0; member < size_; ++member) {
      const int64_t member_rows = rows[static_cast<size_t>(member) * tensors + t];
      total_rows += member_rows;
      bytes_of.push_back(static_cast<size_t>(member_rows) * tensor.row_bytes());
    }
    tensor.out_dims = tensor.dims;
    if (tensor.out_dims.empty()) tensor.out_dims.push_back(1);
    tensor.out_dims[0] = total_rows;
    const size_t bytes = std::accumulate(bytes_of.begin(), bytes_of.end(), size_t{0});
    const size_t offset = std::accumulate(bytes_of.begin(), bytes_of.begin() + me_, size_t{0});
    HVD_TRY(place_gathered(index, tensor, bytes, offset, bytes_of[static_cast<size_t>(me_)]));
    Item& item = add_item(work);
    HVD_TRY(place(operation, tensor, {bytes_of[static_cast<size_t>(me_)], offset, bytes, 0}, item));
    item.count = bytes;
    item.parts = bytes_of;
  }
  return {};
}

size_t Execution::member_of(int32_t rank) const {
  return static_cast<size_t>(std::find(ranks_.begin(), ranks_.end(), rank) - ranks_.begin());
}

Status Execution::prepare_broadcast(Operation& operation) {
  const size_t work = works_.size();
  new_work(Kind::kBroadcast);
  const auto root_member = static_cast<int>(member_of(operation.root));
  works_[work].root_member = root_member;
  for (OpTensor& tensor : operation.tensors) {
    Item& item = add_item(work);
    item.count = tensor.count() * dtype_size(tensor.dtype);
    const bool root = root_member == me_;
    HVD_TRY(place(operation, tensor,
                  {root ? item.count : 0, 0, root && tensor.in == tensor.out ? 0 : item.count, 0},
                  item));
  }
  return {};
}

// Each member sends rows(me, other) rows to each other member, and gets the rows that others have
// for it, in the order of members.
template <class RowsBetween>
Status Execution::prepare_exchange(size_t index, const RowsBetween& rows) {
  Operation& operation = *operations_[index];
  OpTensor& tensor = operation.tensors[0];
  const size_t first_part = add_parts();
  add_parts();
  std::vector<size_t>& send = parts_[first_part];
  std::vector<size_t>& receive = parts_[first_part + 1];
  const auto me = static_cast<size_t>(me_);
  int64_t total_rows = 0;
  for (size_t member = 0; member < static_cast<size_t>(size_); ++member) {
    const int64_t received = rows(member, me);
    send.push_back(static_cast<size_t>(rows(me, member)) * tensor.row_bytes());
    receive.push_back(static_cast<size_t>(received) * tensor.row_bytes());
    operation.received_rows.push_back(received);
    total_rows += received;
  }
  tensor.out_dims = tensor.dims;
  if (tensor.out_dims.empty()) tensor.out_dims.push_back(1);
  tensor.out_dims[0] = total_rows;
  const size_t bytes = static_cast<size_t>(total_rows) * tensor.row_bytes();
  HVD_TRY(place_output(index, tensor, bytes));
  Work& work = new_work(Kind::kAlltoall);
  work.send_bytes = send;
  work.receive_bytes = receive;
  Item& item = add_item(works_.size() - 1);
  const size_t in_bytes = std::accumulate(send.begin(), send.end(), size_t{0});
  HVD_TRY(place(operation, tensor, {in_bytes, 0, bytes, (in_bytes + 63) / 64 * 64}, item));
  item.count = bytes;
  return {};
}

Status Execution::prepare_alltoall(size_t index) {
  const std::vector<int64_t>& splits = group_->entries[entry_of_[index]].variable;
  const auto members = static_cast<size_t>(size_);
  if (splits.size() != members * members) {
    return Status(Code::kInternal, operations_[index]->subject() + ": plan lacks splits");
  }
  return prepare_exchange(index,
                          [&](size_t from, size_t to) { return splits[from * members + to]; });
}

// An exchange in which all rows go to the root: whoever can move an alltoall can move a gather.
Status Execution::prepare_gather(size_t index) {
  const std::vector<int64_t>& rows = group_->entries[entry_of_[index]].variable;
  if (rows.size() != static_cast<size_t>(size_)) {
    return Status(Code::kInternal, operations_[index]->subject() + ": plan lacks row counts");
  }
  const size_t root = member_of(operations_[index]->root);
  return prepare_exchange(index,
                          [&](size_t from, size_t to) { return to == root ? rows[from] : 0; });
}

Status Execution::prepare_reducescatter(Operation& operation) {
  for (OpTensor& tensor : operation.tensors) {
    const Work& work = work_for(Kind::kReducescatter, {tensor.dtype, operation.op,
                                                       operation.prescale, operation.postscale});
    const auto work_index = static_cast<size_t>(&work - works_.data());
    std::vector<size_t>& counts_of = parts_[add_parts()];
    const int64_t rows = tensor.rows();
    for (int member = 0; member < size_; ++member) {
      const int64_t mine = rows / size_ + (member < rows % size_ ? 1 : 0);
      counts_of.push_back(static_cast<size_t>(mine) * tensor.row_count());
    }
    Item& item = add_item(work_index);
    item.count = counts_of[static_cast<size_t>(me_)];
    item.parts = counts_of;
    const size_t element = dtype_size(tensor.dtype);
    const size_t before = std::accumulate(counts_of.begin(), counts_of.begin() + me_, size_t{0});
    HVD_TRY(place(operation, tensor,
                  {tensor.count() * element, 0, item.count * element, before * element}, item));
  }
  return {};
}

Progress Execution::poll(backend::Comm& host_comm) {
  if (splits_ != nullptr) return poll_split();
  bool moved = false;
  if (next_work_ == 0 && !running_) {
    // now and not before: the stream is that of the group that runs
    if (direct_) direct_->next_stream();
    if (const Result<bool> ready = inputs_ready(); !ready.ok() || !ready.value()) {
      return ready.ok() ? Progress::kWaiting : fail_here(ready.status());
    }
  }
  backend::Comm& comm = direct_ ? *direct_->comm() : host_comm;
  while (next_work_ < works_.size()) {
    if (!running_) {
      if (Status started = comm.start(works_[next_work_]); !started.ok())
        return fail_in_work(std::move(started));
      running_ = true;
    }
    const Progress progress = comm.poll();
    if (progress != Progress::kDone) return moved ? Progress::kMoved : progress;
    running_ = false;
    if (Status ended = comm.result(); !ended.ok()) return fail_in_work(std::move(ended));
    moved = true;
    ++next_work_;
  }
  if (const Status given = give_results(); !given.ok()) return fail_here(given);
  return Progress::kDone;
}

// The host's comm knows which rank is at fault; the device's comm knows this rank's side only.
Progress Execution::fail_in_work(Status why) {
  const bool here = direct_ != nullptr && direct_->comm()->fails_by_device();
  return here ? fail_here(std::move(why)) : fail(std::move(why));
}

Progress Execution::fail_here(Status why) {
  return fail(why.with_rank(ranks_[static_cast<size_t>(me_)]));
}

}  // namespace hvd::engine
