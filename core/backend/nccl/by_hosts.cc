// SPDX-License-Identifier: Apache-2.0
#include "backend/nccl/by_hosts.h"

namespace hvd::backend::nccl {

ByHosts::ByHosts(const Work& work, int members, int place)
    : slices(work), across(work), gather(work), rest(work) {
  const auto n = static_cast<size_t>(members);
  const size_t element = dtype_size(work.dtype);
  counts_.reserve(work.items.size());
  bytes_.reserve(work.items.size());
  for (const Item& item : work.items) {
    const size_t slice = item.count / n;
    auto* const out = static_cast<std::byte*>(item.out);
    if (slice > 0) {
      std::byte* const own = out + static_cast<size_t>(place) * slice * element;
      counts_.emplace_back(n, slice);
      bytes_.emplace_back(n, slice * element);
      slices_items_.push_back({item.in, own, n * slice, counts_.back()});
      across_items_.push_back({own, own, slice, {}});
      gather_items_.push_back({own, out, n * slice * element, bytes_.back()});
    }
    const size_t done = n * slice * element;
    if (item.count > n * slice) {
      rest_items_.push_back(
          {static_cast<const std::byte*>(item.in) + done, out + done, item.count - n * slice, {}});
    }
  }
  slices.kind = Kind::kReducescatter;
  gather.kind = Kind::kAllgather;
  slices.items = slices_items_;
  across.items = across_items_;
  gather.items = gather_items_;
  rest.items = rest_items_;
}

}  // namespace hvd::backend::nccl
