// SPDX-License-Identifier: Apache-2.0
// Vectors through hvd.hpp, with exceptions.
#include <hvd/hvd.hpp>

#include <algorithm>
#include <optional>
#include <span>

#include "port.h"

namespace hvd::conformance {
namespace {

// Calls `use(T())` with the C++ type of a dtype.
template <class Use>
auto with_element(hvd_dtype dtype, Use&& use) {
  switch (dtype) {
    case HVD_UINT8: return use(std::uint8_t());
    case HVD_INT8: return use(std::int8_t());
    case HVD_UINT16: return use(std::uint16_t());
    case HVD_INT16: return use(std::int16_t());
    case HVD_INT32: return use(std::int32_t());
    case HVD_INT64: return use(std::int64_t());
    case HVD_FLOAT16: return use(Float16());
    case HVD_FLOAT32: return use(float());
    case HVD_FLOAT64: return use(double());
    case HVD_BOOL: return use(bool());
    case HVD_BFLOAT16: return use(BFloat16());
    default:
      throw UsageError(
          Error(HVD_ERR_UNSUPPORTED, "the runner knows no dtype " + std::to_string(dtype)));
  }
}

template <class T>
hvd::Tensor<T> tensor_of(const hvd_tensor& raw) {
  const std::span<const std::int64_t> shape(raw.shape, static_cast<std::size_t>(raw.ndim));
  std::size_t count = 1;
  for (const std::int64_t dim : shape) count *= static_cast<std::size_t>(dim);
  return {std::span(static_cast<T*>(raw.data), count), shape};
}

std::vector<AnyTensor> tensors_of(const std::vector<hvd_tensor>& raw) {
  std::vector<AnyTensor> all;
  for (const hvd_tensor& one : raw) {
    all.push_back(with_element(
        one.dtype, [&](auto element) { return AnyTensor(tensor_of<decltype(element)>(one)); }));
  }
  return all;
}

class CppPort : public Port {
 public:
  explicit CppPort(Context job) : job_(std::move(job)) {}

  Outcome run(const Request& request) override {
    Outcome outcome;
    try {
      const auto pending = std::make_shared<Pending>(submit(request));
      pending->wait();
      read(request, *pending, outcome);
      outcome.owner = pending;
    } catch (const Exception& error) {
      outcome.status = error.error().status();
      outcome.message = error.what();
    }
    return outcome;
  }

  std::string make_set(const std::vector<int32_t>& ranks) override {
    auto made = job_.try_create_process_set(ranks);
    if (!made) return made.error().message();
    set_ = std::move(*made);
    return "";
  }
  std::string end_set() override { return text(set_->try_destroy()); }
  std::string shut_down(int64_t timeout_ns) override {
    return text(job_.try_shutdown(std::chrono::nanoseconds(timeout_ns)));
  }

 private:
  static std::string text(const Expected<void>& result) {
    return result ? "" : result.error().message();
  }

  OpOptions options_of(const Request& request) const {
    return {.name = request.name,
            .set = request.in_set ? &*set_ : nullptr,
            .reduce_op = static_cast<ReduceOp>(request.options.reduce),
            .prescale = request.options.prescale,
            .postscale = request.options.postscale,
            .timeout = std::chrono::nanoseconds(request.timeout_ns)};
  }

  Pending submit(const Request& request) {
    const std::string& op = request.options.op;
    const OpOptions options = options_of(request);
    if (op == "barrier") return job_.barrier(options);
    if (op == "join") return job_.join(options);
    if (request.grouped) return submit_group(request, options);
    return with_element(request.inputs[0].dtype, [&](auto element) {
      using T = decltype(element);
      const hvd::Tensor<const T> input = tensor_of<T>(request.inputs[0]);
      return request.outputs.empty()
                 ? submit_allocating(request, input, options)
                 : submit_between(request, input, tensor_of<T>(request.outputs[0]), options);
    });
  }

  Pending submit_group(const Request& request, const OpOptions& options) {
    const std::string& op = request.options.op;
    const std::vector<AnyTensor> in = tensors_of(request.inputs), out = tensors_of(request.outputs);
    if (op == "allreduce") return job_.grouped_allreduce(in, out, options);
    if (op == "allgather") return job_.grouped_allgather(in, out, options);
    if (op == "reducescatter") return job_.grouped_reducescatter(in, out, options);
    throw UsageError(Error(HVD_ERR_UNSUPPORTED, "the runner knows no grouped " + op));
  }

  template <class T>
  Pending submit_allocating(const Request& request, const hvd::Tensor<const T>& input,
                            const OpOptions& options) {
    const std::string& op = request.options.op;
    if (op == "allreduce") return job_.allreduce(input, kAllocate, options);
    if (op == "broadcast") return job_.broadcast(input, kAllocate, request.options.root, options);
    if (op == "allgather") return job_.allgather(input, options);
    if (op == "reducescatter") return job_.reducescatter(input, options);
    if (op == "gather") return job_.gather(input, request.options.root, options);
    if (op == "alltoall") return job_.alltoall(input, splits_of(request), options);
    throw UsageError(Error(HVD_ERR_UNSUPPORTED, "the runner knows no " + op));
  }

  template <class T>
  Pending submit_between(const Request& request, const hvd::Tensor<const T>& input,
                         const hvd::Tensor<T>& output, const OpOptions& options) {
    const std::string& op = request.options.op;
    const bool in_place = input.data() == output.data();
    if (op == "allreduce")
      return in_place ? job_.allreduce(output, options) : job_.allreduce(input, output, options);
    if (op == "broadcast") {
      const int root = request.options.root;
      return in_place ? job_.broadcast(output, root, options)
                      : job_.broadcast(input, output, root, options);
    }
    if (op == "allgather") return job_.allgather(input, output, options);
    if (op == "reducescatter") return job_.reducescatter(input, output, options);
    if (op == "gather") return job_.gather(input, output, request.options.root, options);
    if (op == "alltoall") return job_.alltoall(input, splits_of(request), output, options);
    throw UsageError(Error(HVD_ERR_UNSUPPORTED, "the runner knows no " + op));
  }

  static std::span<const std::int64_t> splits_of(const Request& request) {
    return request.splits != nullptr ? std::span<const std::int64_t>(*request.splits)
                                     : std::span<const std::int64_t>();
  }

  static void read(const Request& request, Pending& pending, Outcome& outcome) {
    for (std::size_t i = 0; i < pending.result_count(); ++i) {
      // Every tensor has a result, in this order.
      const hvd_dtype dtype = request.inputs[i].dtype;
      outcome.results.push_back(with_element(dtype, [&](auto element) {
        using T = decltype(element);
        const Result<T> result = pending.result<T>(i);
        const auto ndim = static_cast<std::int32_t>(result.shape.size());
        return hvd_tensor{const_cast<T*>(result.data.data()),
                          result.shape.data(),
                          ndim,
                          dtype,
                          HVD_CPU,
                          0,
                          {0, 0}};
      }));
    }
    if (request.options.op == "alltoall" || request.options.op == "gather")
      outcome.received_splits = pending.received_splits();
    if (request.options.op == "join") outcome.last_joined = pending.last_joined_rank();
  }

  Context job_;
  std::optional<ProcessSet> set_;
};

}  // namespace

std::unique_ptr<Port> open_port(const Opening& opening, std::string* message) {
  InitOptions options;
  options.rank = opening.rank;
  options.size = opening.size;
  options.rendezvous = opening.rendezvous;
  options.timeout = std::chrono::nanoseconds(opening.timeout_ns);
  options.options = opening.options;
  auto job = Context::try_open(options);
  if (job) return std::make_unique<CppPort>(std::move(*job));
  *message = job.error().message();
  return nullptr;
}

}  // namespace hvd::conformance
