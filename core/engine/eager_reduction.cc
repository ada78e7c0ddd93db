// SPDX-License-Identifier: Apache-2.0
#include "engine/eager_reduction.h"

#include <algorithm>

#include "engine/execution.h"
#include "kernels/reduce.h"

namespace hvd::engine {

namespace {

// Contributions to one tensor, in order. Values in `made` stay where they are until the next
// tensor.
struct Contributions {
  std::vector<const void*> values;
  std::vector<Bytes> made;
};

void reduce(const negotiation::Signature& signature, DType dtype, size_t count,
            const Contributions& from, double postscale, std::byte* out) {
  kernels::ReduceArgs args;
  args.dtype = dtype;
  args.op = signature.op == ReduceOp::kAverage ? ReduceOp::kSum : signature.op;
  args.dst = out;
  args.srcs = from.values.data();
  args.nsrc = from.values.size();
  args.count = count;
  args.postscale = postscale;
  kernels::reduce(args);
}

// The contributions of the members with this number among `hosts`, or of all members if `hosts` is
// empty.
Contributions scaled(const negotiation::Signature& signature, DType dtype, size_t count,
                     std::span<const int> hosts, int host,
                     std::span<const std::byte* const> sources, size_t offset) {
  Contributions found;
  found.made.reserve(sources.size());  // addresses of the elements must stay
  for (size_t member = 0; member < sources.size(); ++member) {
    if (sources[member] == nullptr || (!hosts.empty() && hosts[member] != host)) continue;
    const std::byte* value = sources[member] + offset;
    if (signature.prescale != 1.0) {
      found.made.emplace_back(count * dtype_size(dtype));
      kernels::scale(dtype, found.made.back().data(), value, count, signature.prescale);
      value = found.made.back().data();
    }
    found.values.push_back(value);
  }
  return found;
}

// The hosts' own results, in the order of hosts.
Contributions by_hosts(const negotiation::Signature& signature, DType dtype, size_t count,
                       std::span<const int> hosts, std::span<const std::byte* const> sources,
                       size_t offset) {
  Contributions results;
  const int last = *std::max_element(hosts.begin(), hosts.end());
  results.made.reserve(static_cast<size_t>(last) + 1);
  for (int host = 0; host <= last; ++host) {
    const Contributions members = scaled(signature, dtype, count, hosts, host, sources, offset);
    if (members.values.empty()) continue;
    results.made.emplace_back(count * dtype_size(dtype));
    reduce(signature, dtype, count, members, 1.0, results.made.back().data());
    results.values.push_back(results.made.back().data());
  }
  return results;
}

void reduce_tensor(const negotiation::Signature& signature, DType dtype, size_t count,
                   std::span<const int> hosts, std::span<const std::byte* const> sources,
                   size_t offset, std::byte* out) {
  const double postscale =
      signature.op == ReduceOp::kAverage
          ? average_factor(dtype, signature.postscale, static_cast<int>(sources.size()))
          : signature.postscale;
  const Contributions from = hosts.empty()
                                 ? scaled(signature, dtype, count, hosts, 0, sources, offset)
                                 : by_hosts(signature, dtype, count, hosts, sources, offset);
  reduce(signature, dtype, count, from, postscale, out);
}

}  // namespace

void reduce_eagerly(const negotiation::Signature& signature, std::span<const int> hosts,
                    std::span<const std::byte* const> sources, std::span<std::byte> out) {
  size_t offset = 0;
  for (const negotiation::TensorShape& tensor : signature.tensors) {
    const size_t count = negotiation::element_count(tensor.dims);
    reduce_tensor(signature, tensor.dtype, count, hosts, sources, offset, out.data() + offset);
    offset += count * dtype_size(tensor.dtype);
  }
}

}  // namespace hvd::engine
