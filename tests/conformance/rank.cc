// SPDX-License-Identifier: Apache-2.0
#include "rank.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace hvd::conformance {
namespace {

constexpr const char* kPlaceNames[] = {"given output", "library's output", "in place"};
constexpr unsigned char kUntouched = 0xa5;

}  // namespace

bool possible(const Vector& vector, const std::string& op, Place place) {
  // An output of the right size that must stay untouched can be given where the input's shape tells the size.
  const bool given_fails = op == "allreduce" || op == "broadcast";
  if (!vector.expect_status.empty()) return place == (given_fails ? Place::kGiven : Place::kLibrary);
  if (op == "barrier" || op == "join") return place == Place::kLibrary;
  return place != Place::kInPlace || op == "allreduce" || op == "broadcast" || op == "allgather";
}

namespace {

hvd_tensor describe(hvd_dtype dtype, const std::vector<int64_t>& shape, unsigned char* data) {
  hvd_tensor tensor{};
  tensor.data = data;
  tensor.shape = shape.data();
  tensor.ndim = static_cast<int32_t>(shape.size());
  tensor.dtype = dtype;
  tensor.device_type = HVD_CPU;
  return tensor;
}

}  // namespace

// The memory of one rank for one run of one vector.
struct Buffers {
  std::vector<Bytes> memory;  // keeps what the tensors point to
  std::vector<hvd_tensor> inputs, outputs;

  unsigned char* own(Bytes bytes) {
    memory.push_back(std::move(bytes));
    return memory.back().data();
  }
};

namespace {

// Where this rank's rows lie in the gathered output.
size_t own_offset(const Vector& vector, size_t rank, size_t index) {
  size_t offset = 0;
  for (size_t r = 0; r < rank; ++r) {
    if (vector.parts[r].member) offset += vector.parts[r].input[index].data.size();
  }
  return offset;
}

void prepare(const Vector& vector, size_t rank, Place place, Buffers& buffers) {
  const Part& part = vector.parts[rank];
  buffers.memory.reserve(part.input.size() * 2);
  for (size_t i = 0; i < part.input.size(); ++i) {
    const Tensor& input = part.input[i];
    // For an error vector the output has the input's shape: it is only there to stay untouched.
    const bool failing = part.expect.empty();
    const std::vector<int64_t>& shape = failing ? input.shape : part.expect[i].tensor.shape;
    const size_t bytes = failing ? input.data.size() : part.expect[i].bytes;
    unsigned char* out = place == Place::kLibrary ? nullptr : buffers.own(Bytes(bytes, kUntouched));
    unsigned char* in = nullptr;
    if (place == Place::kInPlace) {
      in = out + (part.options.op == "allgather" ? own_offset(vector, rank, i) : 0);
      if (!input.data.empty()) std::memcpy(in, input.data.data(), input.data.size());
    } else {
      in = buffers.own(input.data);
    }
    buffers.inputs.push_back(describe(input.dtype, input.shape, in));
    if (place != Place::kLibrary) buffers.outputs.push_back(describe(input.dtype, shape, out));
  }
}

}  // namespace

void Rank::run(const Vector& vector, Place place) {
  const std::string where = vector.name + ", rank " + std::to_string(rank_) + " of " + std::to_string(vector.size) + ", " +
                            kPlaceNames[static_cast<int>(place)];
  hvd_process_set* set = nullptr;
  hvd_error error = HVD_ERROR_INIT;
  if (!vector.set.empty() && hvd_process_set_create(context_, vector.set.data(), vector.set.size(), &set, &error) != HVD_OK) {
    return report_.fail(where, std::string("process set: ") + error.message);
  }
  const Part& part = vector.parts[rank_];
  if (part.member && !part.joins) operate(vector, part, place, set, where);
  if (vector.any_joined) join(vector, set, where);
  if (!vector.expect_status.empty()) follow_up(vector, where);
  if (set != nullptr && hvd_process_set_destroy(set, &error) != HVD_OK) {
    report_.fail(where, std::string("process set: ") + error.message);
  }
  report_.ran();
}

hvd_op_options Rank::options_for(const std::string& name, const Options& given, hvd_process_set* set) const {
  hvd_op_options options = HVD_OP_OPTIONS_INIT;
  options.name = name.c_str();
  options.set = set;
  options.timeout_ns = 30 * kSecond;
  options.reduce_op = given.reduce;
  options.root = given.root;
  options.prescale = given.prescale;
  options.postscale = given.postscale;
  return options;
}

hvd_status Rank::submit(const Vector& vector, const Part& part, const Buffers& buffers, const hvd_op_options& options,
                        hvd_handle** handle, hvd_error* error) {
  const std::string& op = part.options.op;
  const hvd_tensor* in = buffers.inputs.data();
  const hvd_tensor* out = buffers.outputs.empty() ? nullptr : buffers.outputs.data();
  const size_t count = buffers.inputs.size();
  if (vector.grouped && op == "allreduce") {
    return hvd_grouped_allreduce_async(context_, in, out, count, &options, handle, error);
  }
  if (vector.grouped && op == "allgather") {
    return hvd_grouped_allgatherv_async(context_, in, out, count, &options, handle, error);
  }
  if (vector.grouped && op == "reducescatter") {
    return hvd_grouped_reducescatter_async(context_, in, out, count, &options, handle, error);
  }
  if (op == "allreduce") return hvd_allreduce_async(context_, in, out, &options, handle, error);
  if (op == "allgather") return hvd_allgatherv_async(context_, in, out, &options, handle, error);
  if (op == "broadcast") return hvd_broadcast_async(context_, in, out, &options, handle, error);
  if (op == "reducescatter") return hvd_reducescatter_async(context_, in, out, &options, handle, error);
  if (op == "alltoall") {
    return hvd_alltoallv_async(context_, in, part.splits ? part.splits->data() : nullptr, out, &options, handle, error);
  }
  if (op == "barrier") return hvd_barrier_async(context_, &options, handle, error);
  if (op == "join") return hvd_join_async(context_, &options, handle, error);
  std::snprintf(error->message, sizeof error->message, "the runner knows no %s", op.c_str());
  return HVD_ERR_UNSUPPORTED;
}

void Rank::operate(const Vector& vector, const Part& part, Place place, hvd_process_set* set, const std::string& where) {
  Buffers buffers;
  prepare(vector, rank_, place, buffers);
  const std::string name = vector.name + kPlaceNames[static_cast<int>(place)];
  const hvd_op_options options = options_for(name, part.options, set);
  hvd_error error = HVD_ERROR_INIT;
  hvd_handle* handle = nullptr;
  hvd_status status = submit(vector, part, buffers, options, &handle, &error);
  if (status == HVD_OK) status = hvd_wait(handle, -1, &error);
  if (!vector.expect_status.empty()) {
    check_failure(vector, buffers, status, error, where);
  } else if (status != HVD_OK) {
    report_.fail(where, std::string(hvd_status_name(status)) + ": " + error.message);
  } else {
    check_results(vector, part, buffers, handle, where);
  }
  hvd_handle_free(handle);
}

void Rank::check_failure(const Vector& vector, const Buffers& buffers, hvd_status status, const hvd_error& error,
                         const std::string& where) {
  if (vector.expect_status != hvd_status_name(status)) {
    return report_.fail(where, "expected " + vector.expect_status + ", got " + hvd_status_name(status) + ": " + error.message);
  }
  for (const std::string& text : vector.expect_message_has) {
    if (std::strstr(error.message, text.c_str()) == nullptr) {
      report_.fail(where, "message lacks \"" + text + "\": " + error.message);
    }
  }
  for (size_t i = 0; i < buffers.outputs.size(); ++i) {
    const Bytes& out = buffers.memory[i * 2];
    if (std::any_of(out.begin(), out.end(), [](unsigned char byte) { return byte != kUntouched; })) {
      report_.fail(where, "the output of a failed operation was written to");
    }
  }
}

void Rank::check_results(const Vector& vector, const Part& part, const Buffers& buffers, hvd_handle* handle,
                         const std::string& where) {
  hvd_error error = HVD_ERROR_INIT;
  if (hvd_handle_output_count(handle) != part.expect.size()) {
    return report_.fail(where, std::to_string(hvd_handle_output_count(handle)) + " outputs");
  }
  for (size_t i = 0; i < part.expect.size(); ++i) {
    hvd_tensor out{};
    if (hvd_handle_output(handle, i, &out, &error) != HVD_OK) {
      report_.fail(where, std::string("output: ") + error.message);
      continue;
    }
    const std::string found = difference(part.expect[i], out, vector.bitwise);
    if (!found.empty()) report_.fail(where, "tensor " + std::to_string(i) + ": " + found);
    if (!buffers.outputs.empty() && part.expect[i].bytes > 0 && out.data != buffers.outputs[i].data) {
      report_.fail(where, "the handle's output is not the caller's");
    }
  }
  if (!part.expect_splits.empty()) check_splits(part, handle, where);
  if (part.options.op == "join") check_last_joined(vector, handle, where);
}

void Rank::check_splits(const Part& part, hvd_handle* handle, const std::string& where) {
  size_t count = 0;
  hvd_error error = HVD_ERROR_INIT;
  if (hvd_handle_received_splits(handle, nullptr, &count, &error) != HVD_OK || count != part.expect_splits.size()) {
    return report_.fail(where, "received splits: count " + std::to_string(count) + " " + error.message);
  }
  std::vector<int64_t> splits(count);
  if (hvd_handle_received_splits(handle, splits.data(), &count, &error) != HVD_OK || splits != part.expect_splits) {
    report_.fail(where, std::string("received splits differ ") + error.message);
  }
}

void Rank::check_last_joined(const Vector& vector, hvd_handle* handle, const std::string& where) {
  int32_t last = -1;
  hvd_error error = HVD_ERROR_INIT;
  if (hvd_handle_last_joined_rank(handle, &last, &error) != HVD_OK || last < 0 || last >= vector.size) {
    return report_.fail(where, "last joined rank " + std::to_string(last) + " " + error.message);
  }
  // Ranks that first wait for a reduction join after those whose joining lets it run.
  if (vector.any_joined && vector.parts[static_cast<size_t>(last)].joins) {
    report_.fail(where, "rank " + std::to_string(last) + " joined early but is named as the last");
  }
}

void Rank::join(const Vector& vector, hvd_process_set* set, const std::string& where) {
  const std::string name = vector.name + " join";
  const hvd_op_options options = options_for(name, Options{}, set);
  hvd_error error = HVD_ERROR_INIT;
  hvd_handle* handle = nullptr;
  hvd_status status = hvd_join_async(context_, &options, &handle, &error);
  if (status == HVD_OK) status = hvd_wait(handle, -1, &error);
  if (status == HVD_OK) {
    check_last_joined(vector, handle, where);
  } else {
    report_.fail(where, std::string("join: ") + error.message);
  }
  hvd_handle_free(handle);
}

// After a failed operation the next one is right.
void Rank::follow_up(const Vector& vector, const std::string& where) {
  float value = static_cast<float>(rank_) + 1.0F;
  const int64_t one = 1;
  hvd_tensor tensor{&value, &one, 1, HVD_FLOAT32, HVD_CPU, 0, {0, 0}};
  const std::string name = "after " + vector.name;
  const hvd_op_options options = options_for(name, Options{}, nullptr);
  hvd_error error = HVD_ERROR_INIT;
  hvd_handle* handle = nullptr;
  hvd_status status = hvd_allreduce_async(context_, &tensor, &tensor, &options, &handle, &error);
  if (status == HVD_OK) status = hvd_wait(handle, -1, &error);
  const auto size = static_cast<float>(vector.size);
  if (status != HVD_OK || value != size * (size + 1) / 2)
    report_.fail(where, std::string("the next operation failed: ") + error.message);
  hvd_handle_free(handle);
}

}  // namespace hvd::conformance
