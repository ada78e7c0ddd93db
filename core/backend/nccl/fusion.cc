// SPDX-License-Identifier: Apache-2.0
#include "backend/nccl/fusion.h"

#include <algorithm>

namespace hvd::backend::nccl {

Result<std::unique_ptr<FusionBuffer>> FusionBuffer::allocate(device::Device& device) {
  const Result<void*> memory = device.allocate(kFusionBytes);
  if (!memory.ok()) return memory.status();
  return std::unique_ptr<FusionBuffer>(new FusionBuffer(device, memory.value()));
}

void Fusion::plan(const Work& work, const Scaling& scaling, size_t first, std::byte* buffer) {
  into_.clear();
  items_.clear();
  back_.clear();
  const size_t element = dtype_size(work.dtype);
  const auto is_small = [&](const Item& item) {
    return item.count > 0 && item.count * element <= kSmallTensor;
  };
  // A single small tensor gains nothing.
  const bool fuses =
      buffer != nullptr && std::count_if(work.items.begin(), work.items.end(), is_small) > 1;
  size_t used = 0;
  for (next_ = first; next_ < work.items.size(); ++next_) {
    const Item& item = work.items[next_];
    const size_t bytes = item.count * element;
    if (!fuses || !is_small(item)) {
      add_large(item, bytes, scaling);
      continue;
    }
    if (used + aligned(bytes) > kFusionBytes) break;
    into_.push_back({item.in, buffer + used, bytes});
    back_.push_back({buffer + used, item.out, bytes});
    used += aligned(bytes);
  }
  // With what lies between the tensors.
  if (used > 0) items_.push_back({buffer, buffer, used / element});
}

void Fusion::add_large(const Item& item, size_t bytes, const Scaling& scaling) {
  items_.push_back(item);
  if (scaling.before != 1.0) {
    into_.push_back({item.in, item.out, bytes});
    items_.back().in = item.out;
  }
  if (scaling.after != 1.0) back_.push_back({item.out, item.out, bytes});
}

}  // namespace hvd::backend::nccl
