// SPDX-License-Identifier: Apache-2.0
#include "context/eager.h"

#include "engine/execution.h"
#include "kernels/reduce.h"

namespace hvd {

namespace {

void reduce_tensor(const engine::Signature& signature, DType dtype, size_t count, std::span<const std::byte* const> sources,
                   size_t offset, std::byte* out) {
  const size_t bytes = count * dtype_size(dtype);
  const bool average = signature.op == ReduceOp::kAverage;
  std::vector<Bytes> scaled;
  std::vector<const void*> inputs;
  scaled.reserve(sources.size());  // addresses of the elements must stay
  for (const std::byte* source : sources) {
    if (source == nullptr) continue;
    if (signature.prescale == 1.0) {
      inputs.push_back(source + offset);
      continue;
    }
    scaled.emplace_back(bytes);
    kernels::scale(dtype, scaled.back().data(), source + offset, count, signature.prescale);
    inputs.push_back(scaled.back().data());
  }
  kernels::ReduceArgs args;
  args.dtype = dtype;
  args.op = average ? ReduceOp::kSum : signature.op;
  args.dst = out;
  args.srcs = inputs.data();
  args.nsrc = inputs.size();
  args.count = count;
  args.postscale =
      average ? engine::average_factor(dtype, signature.postscale, static_cast<int>(sources.size())) : signature.postscale;
  kernels::reduce(args);
}

}  // namespace

void reduce_eagerly(const engine::Signature& signature, std::span<const std::byte* const> sources, Bytes& out) {
  size_t total = 0;
  for (const engine::TensorShape& tensor : signature.tensors) {
    total += engine::element_count(tensor.dims) * dtype_size(tensor.dtype);
  }
  out.resize(total);
  size_t offset = 0;
  for (const engine::TensorShape& tensor : signature.tensors) {
    const size_t count = engine::element_count(tensor.dims);
    reduce_tensor(signature, tensor.dtype, count, sources, offset, out.data() + offset);
    offset += count * dtype_size(tensor.dtype);
  }
}

}  // namespace hvd
