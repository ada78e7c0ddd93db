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
  // An output of the right size that must stay untouched can be given where the input's shape tells
  // the size.
  const bool given_fails = op == "allreduce" || op == "broadcast";
  if (!vector.expect_status.empty())
    return place == (given_fails ? Place::kGiven : Place::kLibrary);
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

// What a request's tensors point to.
struct Buffers {
  std::vector<Bytes> inputs, outputs;
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

void prepare(const Vector& vector, size_t rank, Place place, Buffers& buffers, Request& request) {
  const Part& part = vector.parts[rank];
  for (size_t i = 0; i < part.input.size(); ++i) {
    const Tensor& input = part.input[i];
    // For an error vector the output has the input's shape: it is only there to stay untouched.
    const bool failing = part.expect.empty();
    const std::vector<int64_t>& shape = failing ? input.shape : part.expect[i].tensor.shape;
    const size_t bytes = failing ? input.data.size() : part.expect[i].bytes;
    unsigned char* out =
        place == Place::kLibrary ? nullptr : buffers.outputs.emplace_back(bytes, kUntouched).data();
    unsigned char* in = nullptr;
    if (place == Place::kInPlace) {
      in = out + (part.options.op == "allgather" ? own_offset(vector, rank, i) : 0);
      if (!input.data.empty()) std::memcpy(in, input.data.data(), input.data.size());
    } else {
      in = buffers.inputs.emplace_back(input.data).data();
    }
    request.inputs.push_back(describe(input.dtype, input.shape, in));
    if (place != Place::kLibrary) request.outputs.push_back(describe(input.dtype, shape, out));
  }
}

}  // namespace

void Rank::run(const Vector& vector, Place place) {
  const std::string where = vector.name + ", rank " + std::to_string(rank_) + " of " +
                            std::to_string(vector.size) + ", " +
                            kPlaceNames[static_cast<int>(place)];
  if (!vector.set.empty()) {
    const std::string wrong = port_.make_set(vector.set);
    if (!wrong.empty()) return report_.fail(where, "process set: " + wrong);
  }
  const Part& part = vector.parts[rank_];
  if (part.member && !part.joins) operate(vector, part, place, where);
  if (vector.any_joined) join(vector, where);
  if (!vector.expect_status.empty()) follow_up(vector, where);
  if (!vector.set.empty()) {
    const std::string wrong = port_.end_set();
    if (!wrong.empty()) report_.fail(where, "process set: " + wrong);
  }
  report_.ran();
}

void Rank::operate(const Vector& vector, const Part& part, Place place, const std::string& where) {
  Buffers buffers;
  Request request;
  request.name = vector.name + kPlaceNames[static_cast<int>(place)];
  request.options = part.options;
  request.grouped = vector.grouped;
  request.in_set = !vector.set.empty();
  request.timeout_ns = 30 * kSecond;
  request.splits = part.splits ? &*part.splits : nullptr;
  prepare(vector, rank_, place, buffers, request);
  const Outcome outcome = port_.run(request);
  if (!vector.expect_status.empty()) return check_failure(vector, buffers, outcome, where);
  if (outcome.status != HVD_OK) {
    return report_.fail(where,
                        std::string(hvd_status_name(outcome.status)) + ": " + outcome.message);
  }
  check_results(vector, part, request, outcome, where);
}

void Rank::check_failure(const Vector& vector, const Buffers& buffers, const Outcome& outcome,
                         const std::string& where) {
  const char* status = hvd_status_name(outcome.status);
  if (vector.expect_status != status) {
    return report_.fail(
        where, "expected " + vector.expect_status + ", got " + status + ": " + outcome.message);
  }
  for (const std::string& text : vector.expect_message_has) {
    if (outcome.message.find(text) == std::string::npos) {
      report_.fail(where, "message lacks \"" + text + "\": " + outcome.message);
    }
  }
  for (const Bytes& out : buffers.outputs) {
    if (std::any_of(out.begin(), out.end(),
                    [](unsigned char byte) { return byte != kUntouched; })) {
      report_.fail(where, "the output of a failed operation was written to");
    }
  }
}

void Rank::check_results(const Vector& vector, const Part& part, const Request& request,
                         const Outcome& outcome, const std::string& where) {
  if (outcome.results.size() != part.expect.size()) {
    return report_.fail(where, std::to_string(outcome.results.size()) + " outputs");
  }
  for (size_t i = 0; i < part.expect.size(); ++i) {
    const hvd_tensor& out = outcome.results[i];
    const std::string found = difference(part.expect[i], out, vector.bitwise);
    if (!found.empty()) report_.fail(where, "tensor " + std::to_string(i) + ": " + found);
    if (!request.outputs.empty() && part.expect[i].bytes > 0 &&
        out.data != request.outputs[i].data) {
      report_.fail(where, "the handle's output is not the caller's");
    }
  }
  if (!part.expect_splits.empty() && outcome.received_splits != part.expect_splits) {
    report_.fail(where, "received splits differ, " +
                            std::to_string(outcome.received_splits.size()) + " of them");
  }
  if (part.options.op == "join") check_last_joined(vector, outcome, where);
}

void Rank::check_last_joined(const Vector& vector, const Outcome& outcome,
                             const std::string& where) {
  const int32_t last = outcome.last_joined;
  if (last < 0 || last >= vector.size)
    return report_.fail(where, "last joined rank " + std::to_string(last));
  // Ranks that first wait for a reduction join after those whose joining lets it run.
  if (vector.any_joined && vector.parts[static_cast<size_t>(last)].joins) {
    report_.fail(where, "rank " + std::to_string(last) + " joined early but is named as the last");
  }
}

void Rank::join(const Vector& vector, const std::string& where) {
  Request request;
  request.name = vector.name + " join";
  request.options.op = "join";
  request.in_set = !vector.set.empty();
  request.timeout_ns = 30 * kSecond;
  const Outcome outcome = port_.run(request);
  if (outcome.status != HVD_OK) return report_.fail(where, "join: " + outcome.message);
  check_last_joined(vector, outcome, where);
}

// After a failed operation the next one is right.
void Rank::follow_up(const Vector& vector, const std::string& where) {
  float value = static_cast<float>(rank_) + 1.0F;
  const std::vector<int64_t> shape = {1};
  const hvd_tensor tensor = describe(HVD_FLOAT32, shape, reinterpret_cast<unsigned char*>(&value));
  Request request;
  request.name = "after " + vector.name;
  request.options.op = "allreduce";
  request.timeout_ns = 30 * kSecond;
  request.inputs = request.outputs = {tensor};
  const Outcome outcome = port_.run(request);
  const auto size = static_cast<float>(vector.size);
  if (outcome.status != HVD_OK || value != size * (size + 1) / 2) {
    report_.fail(where, "the next operation failed: " + outcome.message);
  }
}

}  // namespace hvd::conformance
