// SPDX-License-Identifier: Apache-2.0
// PluginComm: collectives that treat all members alike.
//
// Where the library cannot reduce a type as hvd.h promises (the half types round once, at the end),
// each member receives all contributions to its share, reduces them with our kernels and gives the
// result to all. Such a reduction moves no more bytes than a ring of the same type, and half as
// many as a ring of float32 would.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "backend/plugin/plugin_comm.h"
#include "kernels/reduce.h"

namespace hvd::backend::plugin {
namespace {

// The bytes of a reduction that are on their way at a time: large enough for the library's
// algorithms, small enough for scratch memory.
constexpr size_t kFlatBlockBytes = size_t{32} << 20;

}  // namespace

void share_out(size_t count, size_t n, std::vector<size_t>* counts) {
  counts->resize(n);
  for (size_t m = 0; m < n; ++m) (*counts)[m] = count / n + (m < count % n ? 1 : 0);
}

std::vector<PluginComm::Stretch> PluginComm::stretches(size_t begin, size_t end) const {
  std::vector<Stretch> found;
  size_t at = 0;
  for (const Item& item : work_->items) {
    const size_t first = std::max(begin, at);
    const size_t last = std::min(end, at + item.count);
    if (first < last) found.push_back({&item, first - at, last - first});
    at += item.count;
  }
  return found;
}

// Brings the block into one piece: where it already is, if that is possible.
Status PluginComm::gather_block(std::span<const Stretch> block, size_t count, const void** in) {
  const size_t element = dtype_size(work_->dtype);
  const Item& first = *block[0].item;
  const size_t offset = block[0].first * element;
  if (block.size() == 1 && first.in != nullptr && first.out != nullptr && work_->prescale == 1.0 &&
      first.in != first.out) {
    *in = static_cast<const std::byte*>(first.in) + offset;
    return {};
  }
  HVD_TRY(input_.reserve(count * element));
  std::byte* to = input_.data();
  for (const Stretch& stretch : block) {
    const auto* from = static_cast<const std::byte*>(stretch.item->in);
    if (from == nullptr) {
      kernels::fill_identity(work_->dtype, work_->op, to, stretch.count);
    } else {
      kernels::scale(work_->dtype, to, from + stretch.first * element, stretch.count,
                     work_->prescale);
    }
    to += stretch.count * element;
  }
  *in = input_.data();
  return {};
}

void PluginComm::scatter_block(std::span<const Stretch> block, const void* out) const {
  const size_t element = dtype_size(work_->dtype);
  const auto* from = static_cast<const std::byte*>(out);
  for (const Stretch& stretch : block) {
    auto* to = static_cast<std::byte*>(stretch.item->out);
    if (to != nullptr && to + stretch.first * element != from) {
      std::memcpy(to + stretch.first * element, from, stretch.count * element);
    }
    from += stretch.count * element;
  }
}

PluginComm::Program PluginComm::allreduce() {
  const size_t element = dtype_size(work_->dtype);
  const size_t step = kFlatBlockBytes / element;
  size_t total = 0;
  for (const Item& item : work_->items) total += item.count;
  for (size_t begin = 0; begin < total; begin += step) {
    const size_t count = std::min(step, total - begin);
    const std::vector<Stretch> block = stretches(begin, begin + count);
    const void* in = nullptr;
    failure_ = gather_block(block, count, &in);
    if (!failed() && (block.size() > 1 || block[0].item->out == nullptr))
      failure_ = output_.reserve(count * element);
    if (failed()) co_return;
    void* out = block.size() == 1 && block[0].item->out != nullptr
                    ? static_cast<std::byte*>(block[0].item->out) + block[0].first * element
                    : output_.data();
    Program reduction = reduce_block(*parts_.all, in, out, count);
    co_await over(reduction);
    if (failed()) co_return;
    scatter_block(block, out);
  }
}

// Reduces `count` elements among the members of `comm`, with the work's postscale. `in` and `out`
// are apart.
PluginComm::Program PluginComm::reduce_block(LibraryComm& comm, const void* in, void* out,
                                             size_t count) {
  const size_t element = dtype_size(work_->dtype);
  if (comm.reduces(work_->dtype, work_->op)) {
    failure_ = begin(comm, {.kind = kAllreduce,
                            .dtype = work_->dtype,
                            .op = work_->op,
                            .in = in,
                            .out = out,
                            .count = count});
    if (failed()) co_return;
    co_await request_over(comm);
    if (!failed() && work_->postscale != 1.0)
      kernels::scale(work_->dtype, out, out, count, work_->postscale);
    co_return;
  }
  share_out(count, static_cast<size_t>(comm.size()), &counts_);
  std::byte* share =
      static_cast<std::byte*>(out) +
      std::accumulate(counts_.begin(), counts_.begin() + comm.me(), size_t{0}) * element;
  Program reduction = reduce_shares(comm, in, counts_, share);
  co_await over(reduction);
  if (failed()) co_return;
  for (size_t m = 0; m < counts_.size(); ++m) receive_bytes_[m] = counts_[m] * element;
  Program collection = gather_bytes(comm, share, static_cast<std::byte*>(out), receive_bytes_);
  co_await over(collection);
}

// The own share of the reduction, `counts` elements for each member of `comm`, with the work's
// postscale.
PluginComm::Program PluginComm::reduce_shares(LibraryComm& comm, const void* in,
                                              std::span<const size_t> counts, void* out) {
  const size_t element = dtype_size(work_->dtype);
  const auto n = static_cast<size_t>(comm.size());
  const size_t mine = counts[static_cast<size_t>(comm.me())];
  failure_ = received_.reserve(n * mine * element);
  if (failed()) co_return;
  send_bytes_.resize(n);
  receive_bytes_.assign(n, mine * element);
  for (size_t m = 0; m < n; ++m) send_bytes_[m] = counts[m] * element;
  failure_ = begin(comm, {.kind = kAlltoall,
                          .in = in,
                          .out = received_.data(),
                          .send_bytes = send_bytes_.data(),
                          .receive_bytes = receive_bytes_.data()});
  if (failed()) co_return;
  co_await request_over(comm);
  if (failed()) co_return;
  sources_.resize(n);
  for (size_t m = 0; m < n; ++m) sources_[m] = received_.data() + m * mine * element;
  kernels::reduce({.dtype = work_->dtype,
                   .op = work_->op,
                   .dst = out,
                   .srcs = sources_.data(),
                   .nsrc = n,
                   .count = mine,
                   .postscale = work_->postscale});
}

PluginComm::Program PluginComm::allgather() {
  for (const Item& item : work_->items) {
    Program gathering =
        gather_bytes(*parts_.all, item.in, static_cast<std::byte*>(item.out), item.parts);
    co_await over(gathering);
    if (failed()) co_return;
  }
}

// More than the library takes at once goes member by member, each as a broadcast.
PluginComm::Program PluginComm::gather_bytes(LibraryComm& comm, const void* in, std::byte* out,
                                             std::span<const size_t> bytes_of) {
  const size_t total = std::accumulate(bytes_of.begin(), bytes_of.end(), size_t{0});
  if (total == 0) co_return;
  if (total <= comm.max_bytes()) {
    failure_ = begin(comm, {.kind = kAllgather,
                            .in = in,
                            .out = out,
                            .count = total,
                            .receive_bytes = bytes_of.data()});
    if (failed()) co_return;
    co_await request_over(comm);
    co_return;
  }
  size_t offset = 0;
  for (size_t m = 0; m < bytes_of.size(); ++m) {
    if (static_cast<int>(m) == comm.me() && bytes_of[m] > 0)
      std::memmove(out + offset, in, bytes_of[m]);
    Program part = broadcast_bytes(comm, out + offset, bytes_of[m], static_cast<int>(m));
    co_await over(part);
    if (failed()) co_return;
    offset += bytes_of[m];
  }
}

PluginComm::Program PluginComm::broadcast() {
  const Item& item = work_->items[0];
  const bool root = parts_.me == work_->root_member;
  if (root && item.in != item.out && item.count > 0) std::memmove(item.out, item.in, item.count);
  Program sending = broadcast_bytes(*parts_.all, static_cast<std::byte*>(item.out), item.count,
                                    work_->root_member);
  co_await over(sending);
}

PluginComm::Program PluginComm::broadcast_bytes(LibraryComm& comm, std::byte* bytes, size_t size,
                                                int root) {
  for (size_t at = 0; at < size; at += comm.max_bytes()) {
    failure_ = begin(comm, {.kind = kBroadcast,
                            .root = root,
                            .out = bytes + at,
                            .count = std::min(size - at, comm.max_bytes())});
    if (failed()) co_return;
    co_await request_over(comm);
    if (failed()) co_return;
  }
}

PluginComm::Program PluginComm::alltoall() {
  const Item& item = work_->items[0];
  failure_ = begin(*parts_.all, {.kind = kAlltoall,
                                 .in = item.in,
                                 .out = item.out,
                                 .send_bytes = work_->send_bytes.data(),
                                 .receive_bytes = work_->receive_bytes.data()});
  if (failed()) co_return;
  co_await request_over(*parts_.all);
}

PluginComm::Program PluginComm::reducescatter() {
  const size_t element = dtype_size(work_->dtype);
  for (const Item& item : work_->items) {
    const size_t count = std::accumulate(item.parts.begin(), item.parts.end(), size_t{0});
    if (count == 0) continue;
    const void* in = item.in;
    if (work_->prescale != 1.0) {
      failure_ = input_.reserve(count * element);
      if (failed()) co_return;
      kernels::scale(work_->dtype, input_.data(), in, count, work_->prescale);
      in = input_.data();
    }
    Program reduction = reduce_shares(*parts_.all, in, item.parts, item.out);
    co_await over(reduction);
    if (failed()) co_return;
  }
}

}  // namespace hvd::backend::plugin
