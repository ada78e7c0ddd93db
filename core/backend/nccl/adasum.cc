// SPDX-License-Identifier: Apache-2.0
#include "backend/nccl/adasum.h"

#include <algorithm>
#include <utility>

#include "backend/nccl/fusion.h"

namespace hvd::backend::nccl {

using device::Kernels;
using device::cuda::AdasumTable;

namespace {

// How the buffer is divided: shares to send, and later to gather; shares received; numbers.
constexpr size_t kExchangeBytes = size_t{12} << 20;
constexpr size_t kSumsBytes = size_t{4} << 20;
constexpr size_t kProductsBytes = size_t{4} << 20;
static_assert(2 * kExchangeBytes + kSumsBytes + kProductsBytes == kFusionBytes);

size_t pairs_of(size_t members) { return members * (members + 1) / 2; }
size_t chunks_of(size_t bytes) {
  return (bytes + device::cuda::kChunkBytes - 1) / device::cuda::kChunkBytes;
}
// Whose sums have room.
size_t most_chunks(size_t members) {
  return kSumsBytes / (pairs_of(members) * device::cuda::kThreads * sizeof(double));
}

}  // namespace

bool Adasum::serves(int members) { return most_chunks(static_cast<size_t>(members)) > 0; }

collectives::Program Adasum::run(const Work& work) {
  for (size_t first = 0; first < work.items.size(); first = batch_end(work, first)) {
    if (!begin_batch(work, first, batch_end(work, first))) continue;
    if (fails(step(Step::kClearProducts, work, whole_))) co_return;
    for (const Round& round : rounds_) {
      if (fails(exchange(work, round))) co_return;
      co_await around_.queued;
      if (failed() || fails(multiply(work, round))) co_return;
    }
    if (fails(add_up_products())) co_return;
    co_await around_.queued;
    if (failed() || fails(step(Step::kWeigh, work, whole_))) co_return;
    for (const Round& round : rounds_) {
      if (rounds_.size() > 1) {  // else it is still there
        if (fails(exchange(work, round))) co_return;
        co_await around_.queued;
      }
      if (failed() || fails(combine(work, round))) co_return;
      co_await around_.queued;
      if (failed() || fails(unpack(work, round))) co_return;
    }
  }
}

bool Adasum::fails(Status status) {
  *around_.failure = std::move(status);
  return failed();
}

// As many tensors as there is room for their numbers.
size_t Adasum::batch_end(const Work& work, size_t first) const {
  const size_t n = members();
  const size_t most = std::min(kProductsBytes / (n * (n + 1) * sizeof(double)),
                               kSumsBytes / (n * n * sizeof(double)));
  return std::min(work.items.size(), first + most);
}

std::vector<Adasum::Round> Adasum::rounds_of(const Work& work, size_t first, size_t last) const {
  size_t left = 0;
  for (size_t i = first; i < last; ++i) left += work.items[i].count * dtype_size(work.dtype);
  std::vector<Round> rounds;
  size_t item = first;
  size_t at = 0;
  while (left > 0) {
    Round& round = rounds.emplace_back();
    round.share = std::min(aligned((left + members() - 1) / members()),
                           kExchangeBytes / members() / kAlignment * kAlignment);
    const size_t whole = std::min(left, round.share * members());
    for (size_t place = 0; place < whole;) {
      const size_t size = work.items[item].count * dtype_size(work.dtype);
      const size_t bytes = std::min(size - at, whole - place);
      if (bytes > 0) round.pieces.push_back({item, at, place, bytes});
      place += bytes;
      at += bytes;
      if (at < size) continue;
      ++item;
      at = 0;
    }
    left -= whole;
  }
  return rounds;
}

// False if all its tensors are empty.
bool Adasum::begin_batch(const Work& work, size_t first, size_t last) {
  first_ = first;
  rounds_ = rounds_of(work, first, last);
  begin_tables(last - first);
  return !rounds_.empty();
}

void Adasum::begin_tables(size_t tensors) {
  std::byte* const received = around_.buffer + kExchangeBytes;
  std::byte* const numbers = received + kExchangeBytes;
  whole_.sent = reinterpret_cast<const unsigned char*>(received);
  whole_.sums = reinterpret_cast<double*>(numbers);
  whole_.products = reinterpret_cast<double*>(numbers + kSumsBytes);
  whole_.weights = whole_.products + tensors * members() * members();
  whole_.members = static_cast<uint32_t>(members());
  whole_.tensors = static_cast<uint32_t>(tensors);
}

// The segments of the own share. A table has each tensor once, and as many chunks as there is room
// for their sums.
void Adasum::make_tables(const Round& round, size_t first) {
  tables_.clear();
  const size_t room = most_chunks(members());
  const size_t begin = me() * round.share;
  AdasumTable table = whole_;
  const auto next = [&] {
    if (table.segments > 0) tables_.push_back(table);
    table = whole_;
    table.stride = round.share;
    table.to = reinterpret_cast<unsigned char*>(around_.buffer) + begin;
  };
  next();
  for (const Piece& piece : round.pieces) {
    size_t at = std::max(piece.place, begin);
    const size_t end = std::min(piece.place + piece.bytes, begin + round.share);
    while (at < end) {
      const size_t used = table.first_chunk[table.segments];
      if (table.segments == device::cuda::kSegments || used == room) {
        next();
        continue;
      }
      const size_t bytes = std::min(end - at, (room - used) * device::cuda::kChunkBytes);
      const uint32_t segment = table.segments++;
      table.tensor[segment] = static_cast<uint32_t>(piece.item - first);
      table.at[segment] = static_cast<uint32_t>(at - begin);
      table.bytes[segment] = static_cast<uint32_t>(bytes);
      table.first_chunk[segment + 1] = static_cast<uint32_t>(used + chunks_of(bytes));
      at += bytes;
    }
  }
  next();
}

// Everybody's input of each member's share goes to that member.
Status Adasum::exchange(const Work& work, const Round& round) {
  std::vector<Kernels::Segment> segments;
  for (const Piece& piece : round.pieces) {
    const auto* from = static_cast<const std::byte*>(work.items[piece.item].in) + piece.at;
    segments.push_back({from, around_.buffer + piece.place, piece.bytes});
  }
  HVD_TRY(apply(work, work.prescale, segments));
  const std::vector<size_t> shares(members(), round.share);
  const Item item{around_.buffer, around_.buffer + kExchangeBytes, members() * round.share, {}};
  Work all;
  all.kind = Kind::kAlltoall;
  all.items = {&item, 1};
  all.send_bytes = shares;
  all.receive_bytes = shares;
  return around_.call(all);
}

Status Adasum::multiply(const Work& work, const Round& round) {
  make_tables(round, first_);
  for (const AdasumTable& table : tables_) {
    HVD_TRY(step(Step::kMultiply, work, table));
    HVD_TRY(step(Step::kAddThreads, work, table));
    HVD_TRY(step(Step::kAddChunks, work, table));
  }
  return {};
}

Status Adasum::add_up_products() {
  const Item item{whole_.products, whole_.products, whole_.tensors * members() * members(), {}};
  Work sums;
  sums.dtype = DType::kFloat64;
  sums.items = {&item, 1};
  return around_.call(sums);
}

Status Adasum::combine(const Work& work, const Round& round) {
  make_tables(round, first_);
  for (const AdasumTable& table : tables_) HVD_TRY(step(Step::kCombine, work, table));
  const std::vector<size_t> shares(members(), round.share);
  const Item item{around_.buffer + me() * round.share, around_.buffer, members() * round.share,
                  shares};
  Work all;
  all.kind = Kind::kAllgather;
  all.items = {&item, 1};
  return around_.call(all);
}

Status Adasum::unpack(const Work& work, const Round& round) const {
  std::vector<Kernels::Segment> segments;
  for (const Piece& piece : round.pieces) {
    auto* to = static_cast<std::byte*>(work.items[piece.item].out) + piece.at;
    segments.push_back({around_.buffer + piece.place, to, piece.bytes});
  }
  return apply(work, work.postscale, segments);
}

Status Adasum::apply(const Work& work, double factor,
                     const std::vector<Kernels::Segment>& segments) const {
  const Kernels& kernels = around_.kernels;
  return factor == 1.0 ? kernels.copy(around_.stream, segments)
                       : kernels.scale(around_.stream, work.dtype, segments, factor);
}

Status Adasum::step(Step step, const Work& work, const AdasumTable& table) const {
  return around_.kernels.adasum(around_.stream, step, work.dtype, table);
}

}  // namespace hvd::backend::nccl
