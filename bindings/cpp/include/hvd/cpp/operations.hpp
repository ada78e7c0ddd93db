// SPDX-License-Identifier: Apache-2.0
// The collectives: each returns at once with a Pending. Section 9 of hvd.h says what they compute
// and what they refuse.
#pragma once

#include <hvd/hvd.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "options.hpp"
#include "pending.hpp"
#include "tensors.hpp"

namespace hvd::inline v1 {

// In the place of an output: the library allocates it, and Pending::result() has it.
struct Allocate {};
inline constexpr Allocate kAllocate{};

// For Context, which has raw(). Each operation comes as name(...), which throws what try_name(...)
// returns as an error. Allgather, gather, alltoall and reducescatter without an output are as with
// kAllocate; allreduce and broadcast without one are in place.
template <class Owner>
class Operations {
 public:
  // output = postscale * reduce(prescale * input of every rank).
  template <TensorLike In, WritableTensor Out>
    requires SameElements<In, Out>
  Expected<Pending> try_allreduce(In&& input, Out&& output, const OpOptions& options = {}) {
    return between(hvd_allreduce_async, input, output, options);
  }
  template <TensorLike In, WritableTensor Out>
    requires SameElements<In, Out>
  Pending allreduce(In&& input, Out&& output, const OpOptions& options = {}) {
    return try_allreduce(std::forward<In>(input), std::forward<Out>(output), options).value();
  }
  // In place.
  template <WritableTensor Data>
  Expected<Pending> try_allreduce(Data&& data, const OpOptions& options = {}) {
    return in_place(hvd_allreduce_async, data, options);
  }
  template <WritableTensor Data>
  Pending allreduce(Data&& data, const OpOptions& options = {}) {
    return try_allreduce(std::forward<Data>(data), options).value();
  }
  template <TensorLike In>
  Expected<Pending> try_allreduce(In&& input, Allocate, const OpOptions& options = {}) {
    return allocating(hvd_allreduce_async, input, options);
  }
  template <TensorLike In>
  Pending allreduce(In&& input, Allocate, const OpOptions& options = {}) {
    return try_allreduce(std::forward<In>(input), kAllocate, options).value();
  }
  // Several tensors as one operation: none starts before all are ready on every rank. Without
  // outputs the library allocates them. In place if the outputs are the inputs.
  Expected<Pending> try_grouped_allreduce(std::span<const AnyTensor> inputs,
                                          std::span<const AnyTensor> outputs,
                                          const OpOptions& options = {}) {
    return several(hvd_grouped_allreduce_async, inputs, outputs, options);
  }
  Pending grouped_allreduce(std::span<const AnyTensor> inputs, std::span<const AnyTensor> outputs,
                            const OpOptions& options = {}) {
    return try_grouped_allreduce(inputs, outputs, options).value();
  }
  // In place.
  Expected<Pending> try_grouped_allreduce(std::span<const AnyTensor> tensors,
                                          const OpOptions& options = {}) {
    return try_grouped_allreduce(tensors, tensors, options);
  }
  Pending grouped_allreduce(std::span<const AnyTensor> tensors, const OpOptions& options = {}) {
    return try_grouped_allreduce(tensors, options).value();
  }

  // The inputs of all ranks one after another along dimension 0.
  template <TensorLike In>
  Expected<Pending> try_allgather(In&& input, const OpOptions& options = {}) {
    return allocating(hvd_allgatherv_async, input, options);
  }
  template <TensorLike In>
  Pending allgather(In&& input, const OpOptions& options = {}) {
    return try_allgather(std::forward<In>(input), options).value();
  }
  template <TensorLike In, WritableTensor Out>
    requires SameElements<In, Out>
  Expected<Pending> try_allgather(In&& input, Out&& output, const OpOptions& options = {}) {
    return between(hvd_allgatherv_async, input, output, options);
  }
  template <TensorLike In, WritableTensor Out>
    requires SameElements<In, Out>
  Pending allgather(In&& input, Out&& output, const OpOptions& options = {}) {
    return try_allgather(std::forward<In>(input), std::forward<Out>(output), options).value();
  }
  Expected<Pending> try_grouped_allgather(std::span<const AnyTensor> inputs,
                                          std::span<const AnyTensor> outputs,
                                          const OpOptions& options = {}) {
    return several(hvd_grouped_allgatherv_async, inputs, outputs, options);
  }
  Pending grouped_allgather(std::span<const AnyTensor> inputs, std::span<const AnyTensor> outputs,
                            const OpOptions& options = {}) {
    return try_grouped_allgather(inputs, outputs, options).value();
  }
  Expected<Pending> try_grouped_allgather(std::span<const AnyTensor> inputs,
                                          const OpOptions& options = {}) {
    return try_grouped_allgather(inputs, {}, options);
  }
  Pending grouped_allgather(std::span<const AnyTensor> inputs, const OpOptions& options = {}) {
    return try_grouped_allgather(inputs, options).value();
  }

  // What rank `root` of the job has, everywhere. In place.
  template <WritableTensor Data>
  Expected<Pending> try_broadcast(Data&& data, int root, const OpOptions& options = {}) {
    return in_place(hvd_broadcast_async, data, options, root);
  }
  template <WritableTensor Data>
  Pending broadcast(Data&& data, int root, const OpOptions& options = {}) {
    return try_broadcast(std::forward<Data>(data), root, options).value();
  }
  template <TensorLike In, WritableTensor Out>
    requires SameElements<In, Out>
  Expected<Pending> try_broadcast(In&& input, Out&& output, int root,
                                  const OpOptions& options = {}) {
    return between(hvd_broadcast_async, input, output, options, root);
  }
  template <TensorLike In, WritableTensor Out>
    requires SameElements<In, Out>
  Pending broadcast(In&& input, Out&& output, int root, const OpOptions& options = {}) {
    return try_broadcast(std::forward<In>(input), std::forward<Out>(output), root, options).value();
  }
  template <TensorLike In>
  Expected<Pending> try_broadcast(In&& input, Allocate, int root, const OpOptions& options = {}) {
    return allocating(hvd_broadcast_async, input, options, root);
  }
  template <TensorLike In>
  Pending broadcast(In&& input, Allocate, int root, const OpOptions& options = {}) {
    return try_broadcast(std::forward<In>(input), kAllocate, root, options).value();
  }

  // What all ranks have, one after another along dimension 0, on rank `root` of the job; elsewhere
  // a result without rows. Pending::received_splits() has the rows that came.
  template <TensorLike In>
  Expected<Pending> try_gather(In&& input, int root, const OpOptions& options = {}) {
    return allocating(hvd_gatherv_async, input, options, root);
  }
  template <TensorLike In>
  Pending gather(In&& input, int root, const OpOptions& options = {}) {
    return try_gather(std::forward<In>(input), root, options).value();
  }
  template <TensorLike In, WritableTensor Out>
    requires SameElements<In, Out>
  Expected<Pending> try_gather(In&& input, Out&& output, int root, const OpOptions& options = {}) {
    return between(hvd_gatherv_async, input, output, options, root);
  }
  template <TensorLike In, WritableTensor Out>
    requires SameElements<In, Out>
  Pending gather(In&& input, Out&& output, int root, const OpOptions& options = {}) {
    return try_gather(std::forward<In>(input), std::forward<Out>(output), root, options).value();
  }

  // splits[i] rows go to the i-th rank of the set; empty: equal parts. Pending::received_splits()
  // has the rows that came.
  template <TensorLike In>
  Expected<Pending> try_alltoall(In&& input, std::span<const std::int64_t> splits = {},
                                 const OpOptions& options = {}) {
    if (auto wrong = wrong_splits(splits, options)) return *wrong;
    return allocating(Alltoall{splits}, input, options);
  }
  template <TensorLike In>
  Pending alltoall(In&& input, std::span<const std::int64_t> splits = {},
                   const OpOptions& options = {}) {
    return try_alltoall(std::forward<In>(input), splits, options).value();
  }
  template <TensorLike In, WritableTensor Out>
    requires SameElements<In, Out>
  Expected<Pending> try_alltoall(In&& input, std::span<const std::int64_t> splits, Out&& output,
                                 const OpOptions& options = {}) {
    if (auto wrong = wrong_splits(splits, options)) return *wrong;
    return between(Alltoall{splits}, input, output, options);
  }
  template <TensorLike In, WritableTensor Out>
    requires SameElements<In, Out>
  Pending alltoall(In&& input, std::span<const std::int64_t> splits, Out&& output,
                   const OpOptions& options = {}) {
    return try_alltoall(std::forward<In>(input), splits, std::forward<Out>(output), options)
        .value();
  }

  // As allreduce; then the rows of dimension 0 are dealt out.
  template <TensorLike In>
  Expected<Pending> try_reducescatter(In&& input, const OpOptions& options = {}) {
    return allocating(hvd_reducescatter_async, input, options);
  }
  template <TensorLike In>
  Pending reducescatter(In&& input, const OpOptions& options = {}) {
    return try_reducescatter(std::forward<In>(input), options).value();
  }
  template <TensorLike In, WritableTensor Out>
    requires SameElements<In, Out>
  Expected<Pending> try_reducescatter(In&& input, Out&& output, const OpOptions& options = {}) {
    return between(hvd_reducescatter_async, input, output, options);
  }
  template <TensorLike In, WritableTensor Out>
    requires SameElements<In, Out>
  Pending reducescatter(In&& input, Out&& output, const OpOptions& options = {}) {
    return try_reducescatter(std::forward<In>(input), std::forward<Out>(output), options).value();
  }
  Expected<Pending> try_grouped_reducescatter(std::span<const AnyTensor> inputs,
                                              std::span<const AnyTensor> outputs,
                                              const OpOptions& options = {}) {
    return several(hvd_grouped_reducescatter_async, inputs, outputs, options);
  }
  Pending grouped_reducescatter(std::span<const AnyTensor> inputs,
                                std::span<const AnyTensor> outputs, const OpOptions& options = {}) {
    return try_grouped_reducescatter(inputs, outputs, options).value();
  }
  Expected<Pending> try_grouped_reducescatter(std::span<const AnyTensor> inputs,
                                              const OpOptions& options = {}) {
    return try_grouped_reducescatter(inputs, {}, options);
  }
  Pending grouped_reducescatter(std::span<const AnyTensor> inputs, const OpOptions& options = {}) {
    return try_grouped_reducescatter(inputs, options).value();
  }

  // Ends on no rank before every rank of the set has called it.
  Expected<Pending> try_barrier(const OpOptions& options = {}) {
    return without_tensor(hvd_barrier_async, options);
  }
  Pending barrier(const OpOptions& options = {}) { return try_barrier(options).value(); }

  // This rank has no more data: it takes part in allreduces of the others without contributing
  // until all have joined.
  Expected<Pending> try_join(const OpOptions& options = {}) {
    return without_tensor(hvd_join_async, options);
  }
  Pending join(const OpOptions& options = {}) { return try_join(options).value(); }

 private:
  // hvd_alltoallv_async with the arguments of the others.
  struct Alltoall {
    std::span<const std::int64_t> splits;

    hvd_status operator()(hvd_context* context, const hvd_tensor* input, const hvd_tensor* output,
                          const hvd_op_options* options, hvd_handle** handle,
                          hvd_error* error) const {
      const std::int64_t* counts = splits.empty() ? nullptr : splits.data();
      return hvd_alltoallv_async(context, input, counts, output, options, handle, error);
    }
  };

  hvd_context* context() { return static_cast<Owner*>(this)->raw(); }

  // The library reads as many splits as the set has ranks.
  std::optional<Error> wrong_splits(std::span<const std::int64_t> splits,
                                    const OpOptions& options) {
    const int size =
        options.set != nullptr ? options.set->size() : static_cast<Owner*>(this)->size();
    if (splits.empty() || splits.size() == static_cast<std::size_t>(size)) return {};
    return invalid("alltoall", options,
                   std::to_string(splits.size()) + " splits, but the process set has " +
                       std::to_string(size) + " ranks");
  }
  static Error invalid(const char* operation, const OpOptions& options, const std::string& what) {
    const std::string name = options.name.empty() ? "unnamed" : options.name;
    return Error(HVD_ERR_INVALID_ARGUMENT, std::string(operation) + " \"" + name + "\": " + what);
  }

  // `call(how, handle, error)` submits.
  template <class Call>
  static Expected<Pending> submit(const OpOptions& options, int root, Call&& call) {
    if (detail::has_null(options.name)) return detail::null_character("the name", options.name);
    const hvd_op_options raw = options.raw(root);
    hvd_handle* handle = nullptr;
    const Expected<void> result =
        detail::checked([&](hvd_error* error) { return call(&raw, &handle, error); });
    if (!result) return result.error();
    return Pending(handle);
  }

  // The library copies shapes and options before a call returns, so these may end here.
  template <class Call, class Data>
  Expected<Pending> in_place(const Call& call, Data& data, const OpOptions& options, int root = 0) {
    const auto& tensor = detail::as_tensor(data);
    if (!tensor.fits()) return tensor.check().error();
    const hvd_tensor raw = tensor.raw();
    return submit(options, root,
                  [&](const hvd_op_options* how, hvd_handle** handle, hvd_error* error) {
                    return call(context(), &raw, &raw, how, handle, error);
                  });
  }
  template <class Call, class In>
  Expected<Pending> allocating(const Call& call, In& input, const OpOptions& options,
                               int root = 0) {
    const auto& from = detail::as_tensor(input);
    if (!from.fits()) return from.check().error();
    const hvd_tensor in = from.raw();
    return submit(options, root,
                  [&](const hvd_op_options* how, hvd_handle** handle, hvd_error* error) {
                    return call(context(), &in, nullptr, how, handle, error);
                  });
  }
  template <class Call, class In, class Out>
  Expected<Pending> between(const Call& call, In& input, Out& output, const OpOptions& options,
                            int root = 0) {
    const auto& from = detail::as_tensor(input);
    const auto& to = detail::as_tensor(output);
    if (!from.fits()) return from.check().error();
    if (!to.fits()) return to.check().error();
    const hvd_tensor in = from.raw(), out = to.raw();
    return submit(options, root,
                  [&](const hvd_op_options* how, hvd_handle** handle, hvd_error* error) {
                    return call(context(), &in, &out, how, handle, error);
                  });
  }

  template <class Call>
  Expected<Pending> several(Call call, std::span<const AnyTensor> inputs,
                            std::span<const AnyTensor> outputs, const OpOptions& options) {
    std::vector<hvd_tensor> in, out;
    for (const AnyTensor& tensor : inputs) {
      if (!tensor.check()) return tensor.check().error();
      in.push_back(tensor.raw());
    }
    for (const AnyTensor& tensor : outputs) {
      if (!tensor.writable())
        return invalid("group", options, "output " + std::to_string(out.size()) + " is const");
      if (!tensor.check()) return tensor.check().error();
      out.push_back(tensor.raw());
    }
    if (!out.empty() && out.size() != in.size()) {
      return invalid(
          "group", options,
          std::to_string(in.size()) + " inputs, but " + std::to_string(out.size()) + " outputs");
    }
    return submit(options, 0,
                  [&](const hvd_op_options* how, hvd_handle** handle, hvd_error* error) {
                    return call(context(), in.data(), out.empty() ? nullptr : out.data(), in.size(),
                                how, handle, error);
                  });
  }

  template <class Call>
  Expected<Pending> without_tensor(Call call, const OpOptions& options) {
    return submit(options, 0,
                  [&](const hvd_op_options* how, hvd_handle** handle, hvd_error* error) {
                    return call(context(), how, handle, error);
                  });
  }
};

}  // namespace hvd::inline v1
