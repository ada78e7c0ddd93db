// SPDX-License-Identifier: Apache-2.0
// Makes an operation of the arguments of a call. The boundary reads the caller's structs; a Draft
// says whether the arguments make sense together and for the process set, lays out the results, and
// signs. Errors begin with the operation, `allreduce "x": `, and name the value found and what is
// allowed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "engine/operation.h"

namespace hvd::engine {

inline constexpr int kMaxDimensions = negotiation::kMaxDimensions;

// The arguments of the whole call, in the caller's numbers.
struct CallArguments {
  OpKind kind = OpKind::kBarrier;
  std::shared_ptr<ProcessSet> set;
  const char* name = nullptr;  // null: members find each other by the order of their calls
  size_t tensors = 0;
  int32_t priority = 0;
  int64_t timeout_ns = 0;  // 0: the option op_timeout; negative: no limit
  int32_t reduce_op = 0;   // a number of ReduceOp
  double prescale = 1.0;
  double postscale = 1.0;
  int32_t root = 0;
  std::optional<int> device;  // the CUDA device of the tensors; empty for host memory
  void* stream = nullptr;     // the caller's on that device
};

// A tensor without a fault of its own: a dtype, dimensions of 0 or more, and memory unless there
// are no bytes.
struct GivenTensor {
  void* data = nullptr;
  size_t bytes = 0;
  DType dtype = DType::kUint8;
  std::span<const int64_t> dims;
  std::optional<int> device;
};

// Which tensor of a call an error is about: "input", in a group "input 3".
struct Role {
  const char* word;
  size_t index;
  size_t count;  // tensors of the call

  std::string text() const { return count > 1 ? word + (" " + std::to_string(index)) : word; }
};

// In this order: begin(); for each tensor take_input(), then take_output() or make_output();
// finish().
class Draft {
 public:
  explicit Draft(const std::shared_ptr<Engine>& engine);

  Status begin(CallArguments call);
  // False on the ranks of a broadcast that are not the root: the data of the inputs is not used
  // there, and may be null.
  bool reads_inputs() const;
  Status take_input(const GivenTensor& given, const Role& role);
  Status take_output(const GivenTensor& given, const Role& role);
  // Memory of the library for the result, unless the size of the result is known only when all
  // members have come.
  Status make_output(size_t index);
  // `send_splits`: for alltoall, the rows for each member of the set; null: equally many for all.
  Result<std::unique_ptr<Operation>> finish(const int64_t* send_splits);

  Status invalid(const std::string& what) const;
  Status unsupported(const std::string& what) const;

 private:
  Status take_name(const char* name, bool several);
  Status take_set(std::shared_ptr<ProcessSet> set);
  Status take_reduction(const CallArguments& call);
  Status take_root(int32_t root);
  Status take_device(void* stream);
  Status take_splits(const int64_t* splits);
  // An error unless the tensor is where the first input is. The data is checked unless `bytes` is
  // 0.
  Status check_device(const GivenTensor& given, const Role& role, size_t bytes) const;
  Status check_placement(const OpTensor& tensor, const Role& role) const;
  Status check_reduction() const;

  std::unique_ptr<Operation> operation_;
  std::optional<int> device_;
};

}  // namespace hvd::engine
