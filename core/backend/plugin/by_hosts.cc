// SPDX-License-Identifier: Apache-2.0
// PluginComm: collectives in two halves, shared memory inside the host and the plug-in between
// hosts. Each member carries the slice of its local index across, so all members of a host use the
// network side by side.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "backend/plugin/plugin_comm.h"

namespace hvd::backend::plugin {
namespace {

// The bytes of an allreduce that are on their way at a time on one host.
constexpr size_t kSliceBlockBytes = size_t{64} << 20;

}  // namespace

// Sums and products of the half types round once, at the end, which two halves of a reduction could
// not do.
bool PluginComm::by_hosts() const {
  if (parts_.across == nullptr) return false;
  const bool reduces = work_->kind == Kind::kAllreduce || work_->kind == Kind::kReducescatter;
  const bool rounds =
      work_->op == ReduceOp::kSum || work_->op == ReduceOp::kProduct || work_->postscale != 1.0;
  const bool half = work_->dtype == DType::kFloat16 || work_->dtype == DType::kBfloat16;
  return !(reduces && rounds && half);
}

PluginComm::Program PluginComm::allreduce_by_hosts() {
  const size_t element = dtype_size(work_->dtype);
  const size_t step = kSliceBlockBytes / element;
  size_t total = 0;
  for (const Item& item : work_->items) total += item.count;
  for (size_t begin = 0; begin < total; begin += step) {
    const std::vector<Stretch> block = stretches(begin, std::min(begin + step, total));
    size_t own = 0;
    failure_ = scatter_on_host(block, &own);
    if (failed()) co_return;
    co_await local_over();
    if (!failed() && own > 0) {
      Program reduction = reduce_block(*parts_.across, slices_.data(), output_.data(), own);
      co_await over(reduction);
    }
    if (!failed()) failure_ = gather_on_host(block);
    if (failed()) co_return;
    co_await local_over();
    if (failed()) co_return;
  }
}

// Starts the reduction inside the host; each member keeps a slice of every stretch, `own` elements
// together.
Status PluginComm::scatter_on_host(std::span<const Stretch> block, size_t* own) {
  const size_t element = dtype_size(work_->dtype);
  const auto locals = parts_.hosts.members[0].size();
  const auto me = static_cast<size_t>(parts_.hosts.local);
  local_items_.assign(block.size(), Item{});
  local_parts_.resize(std::max(local_parts_.size(), block.size()));
  *own = 0;
  for (size_t i = 0; i < block.size(); ++i) {
    share_out(block[i].count, locals, &local_parts_[i]);
    *own += local_parts_[i][me];
  }
  HVD_TRY(slices_.reserve(*own * element));
  HVD_TRY(output_.reserve(*own * element));
  std::byte* slice = slices_.data();
  for (size_t i = 0; i < block.size(); ++i) {
    const auto* in = static_cast<const std::byte*>(block[i].item->in);
    const size_t mine = local_parts_[i][me];
    local_items_[i] = {.in = in == nullptr ? nullptr : in + block[i].first * element,
                       .out = slice,
                       .count = mine,
                       .parts = local_parts_[i]};
    slice += mine * element;
  }
  local_work_ = *work_;
  local_work_.kind = Kind::kReducescatter;
  local_work_.postscale = 1.0;
  local_work_.items = local_items_;
  return begin_local(local_work_);
}

// Starts the exchange of the finished slices inside the host. After scatter_on_host() of the same
// block.
Status PluginComm::gather_on_host(std::span<const Stretch> block) {
  const size_t element = dtype_size(work_->dtype);
  const auto me = static_cast<size_t>(parts_.hosts.local);
  size_t unwanted = 0;
  for (const Stretch& stretch : block) {
    if (stretch.item->out == nullptr) unwanted = std::max(unwanted, stretch.count * element);
  }
  HVD_TRY(input_.reserve(unwanted));
  const std::byte* slice = output_.data();
  for (size_t i = 0; i < block.size(); ++i) {
    const size_t mine = local_parts_[i][me] * element;
    auto* out = static_cast<std::byte*>(block[i].item->out);
    for (size_t& part : local_parts_[i]) part *= element;
    local_items_[i] = {.in = slice,
                       .out = out == nullptr ? input_.data() : out + block[i].first * element,
                       .count = block[i].count * element,
                       .parts = local_parts_[i]};
    slice += mine;
  }
  local_work_.kind = Kind::kAllgather;
  local_work_.items = local_items_;
  return begin_local(local_work_);
}

PluginComm::Program PluginComm::allgather_by_hosts() {
  for (const Item& item : work_->items) {
    column_of(item.parts, &counts_);
    const size_t column = std::accumulate(counts_.begin(), counts_.end(), size_t{0});
    failure_ = slices_.reserve(column);
    if (failed()) co_return;
    Program gathering = gather_bytes(*parts_.across, item.in, slices_.data(), counts_);
    co_await over(gathering);
    if (failed()) co_return;
    local_work_ = *work_;
    split_by_hosts(item.parts, 1, static_cast<std::byte*>(item.out), slices_.data(), false);
    failure_ = begin_local(local_work_);
    if (failed()) co_return;
    co_await local_over();
    if (failed()) co_return;
  }
}

PluginComm::Program PluginComm::reducescatter_by_hosts() {
  const size_t element = dtype_size(work_->dtype);
  for (const Item& item : work_->items) {
    column_of(item.parts, &counts_);
    const size_t column = std::accumulate(counts_.begin(), counts_.end(), size_t{0});
    failure_ = slices_.reserve(column * element);
    if (failed()) co_return;
    local_work_ = *work_;
    local_work_.postscale = 1.0;
    split_by_hosts(item.parts, element, static_cast<std::byte*>(const_cast<void*>(item.in)),
                   slices_.data(), true);
    failure_ = begin_local(local_work_);
    if (failed()) co_return;
    co_await local_over();
    if (failed()) co_return;
    Program reduction = reduce_shares(*parts_.across, slices_.data(), counts_, item.out);
    co_await over(reduction);
    if (failed()) co_return;
  }
}

// The entries of the members with this local index, by host.
void PluginComm::column_of(std::span<const size_t> parts, std::vector<size_t>* column) const {
  column->clear();
  for (const std::vector<int>& members : parts_.hosts.members) {
    column->push_back(parts[static_cast<size_t>(members[static_cast<size_t>(parts_.hosts.local)])]);
  }
}

// Makes an item of local_work_ for each host, between the host's piece of `whole`, which is all
// members' parts of `unit` bytes, and this member's part of that piece in `slices`. `scatter`: from
// whole to slices, otherwise back.
void PluginComm::split_by_hosts(std::span<const size_t> parts, size_t unit, std::byte* whole,
                                std::byte* slices, bool scatter) {
  const Hosts& hosts = parts_.hosts;
  local_items_.assign(hosts.members.size(), Item{});
  local_parts_.resize(std::max(local_parts_.size(), hosts.members.size()));
  for (size_t h = 0; h < hosts.members.size(); ++h) {
    std::vector<size_t>& of_host = local_parts_[h];
    of_host.clear();
    for (const int member : hosts.members[h]) of_host.push_back(parts[static_cast<size_t>(member)]);
    const size_t mine = of_host[static_cast<size_t>(hosts.local)];
    const size_t all = std::accumulate(of_host.begin(), of_host.end(), size_t{0});
    local_items_[h] = {.in = scatter ? whole : slices,
                       .out = scatter ? slices : whole,
                       .count = scatter ? mine : all,
                       .parts = of_host};
    whole += all * unit;
    slices += mine * unit;
  }
  local_work_.items = local_items_;
}

PluginComm::Program PluginComm::broadcast_by_hosts() {
  const Item& item = work_->items[0];
  const Hosts& hosts = parts_.hosts;
  int root_host = 0;
  int root_local = 0;
  for (size_t h = 0; h < hosts.members.size(); ++h) {
    const auto found =
        std::find(hosts.members[h].begin(), hosts.members[h].end(), work_->root_member);
    if (found == hosts.members[h].end()) continue;
    root_host = static_cast<int>(h);
    root_local = static_cast<int>(found - hosts.members[h].begin());
  }
  if (parts_.me == work_->root_member && item.in != item.out && item.count > 0)
    std::memmove(item.out, item.in, item.count);
  if (hosts.local == root_local) {
    Program between_hosts =
        broadcast_bytes(*parts_.across, static_cast<std::byte*>(item.out), item.count, root_host);
    co_await over(between_hosts);
    if (failed()) co_return;
  }
  local_items_.assign(1, {.in = item.out, .out = item.out, .count = item.count});
  local_work_ = *work_;
  local_work_.root_member = root_local;
  local_work_.items = local_items_;
  failure_ = begin_local(local_work_);
  if (failed()) co_return;
  co_await local_over();
}

}  // namespace hvd::backend::plugin
