// SPDX-License-Identifier: Apache-2.0
#include "collectives/stream_transfer.h"

#include <algorithm>

namespace hvd::collectives {

namespace {

// So often progress() goes round before the engine looks at everything else again.
constexpr int kSweeps = 16;

}  // namespace

// The next stretches of all items that may move.
size_t StreamTransfer::collect(std::span<iovec> vectors, size_t& bytes) {
  size_t used = 0;
  for (size_t item = done_; item < allowed_ && used < vectors.size(); ++item) {
    const Place place = item == done_ ? current_ : locate_(item);
    if (place.flat != nullptr) {
      if (place.range.size() != 0) vectors[used++] = {place.flat, place.range.size()};
      bytes += place.range.size();
      continue;
    }
    const size_t first = used;
    used += cursor_.first_stretches(
        place.range, vectors.size() - used,
        [&](size_t i, const Segment& segment, size_t offset, size_t length) {
          std::byte* base = place.outputs ? segment.out : const_cast<std::byte*>(segment.in);
          vectors[first + i] = {base + offset, length};
          bytes += length;
        });
  }
  return used;
}

void StreamTransfer::advance(size_t bytes) {
  while (done_ < allowed_) {
    begin_item();
    const size_t taken = std::min(bytes, current_.range.size());
    if (current_.flat != nullptr) current_.flat += taken;
    current_.range.begin += taken;
    bytes -= taken;
    if (current_.range.size() != 0) return;
    ++done_;
    begun_ = false;
  }
}

StreamTransfer::Moved StreamTransfer::move(Effort& effort) {
  if (idle()) return Moved::kNothing;
  begin_item();
  iovec vectors[kVectors];
  size_t wanted = 0;
  const size_t used = collect(vectors, wanted);
  if (used == 0) {  // items without bytes
    advance(0);
    return Moved::kAll;
  }
  const std::span<const iovec> pieces(vectors, used);
  const size_t bytes = sending_ ? stream_->send_some(pieces) : stream_->receive_some(pieces);
  if (bytes == 0) return Moved::kNothing;
  if (sending_) effort.streamed_bytes += bytes;
  advance(bytes);
  return bytes == wanted ? Moved::kAll : Moved::kSomething;
}

// A stream that took or gave less than asked is not asked again before the next call.
void StreamTransfers::progress() {
  stuck_.assign(transfers_.size(), false);
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    bool again = false;
    for (size_t i = 0; i < transfers_.size(); ++i) {
      StreamTransfer& transfer = transfers_[i];
      if (stuck_[i] || transfer.idle()) continue;
      const size_t before = transfer.done();
      const StreamTransfer::Moved moved = transfer.move(effort_);
      stuck_[i] = moved != StreamTransfer::Moved::kAll;
      if (moved == StreamTransfer::Moved::kNothing) continue;
      moved_ = again = true;
      if (transfer.done() != before && react_) react_();
    }
    if (!again) return;
  }
}

bool StreamTransfers::finished() const {
  return std::all_of(transfers_.begin(), transfers_.end(),
                     [](const StreamTransfer& transfer) { return transfer.finished(); });
}

// Whose bytes are missing most.
int StreamTransfers::awaited() const {
  const StreamTransfer* last = nullptr;
  for (const StreamTransfer& transfer : transfers_) {
    if (transfer.finished()) continue;
    const bool later = last == nullptr || (last->sending() && !transfer.sending()) ||
                       (last->sending() == transfer.sending() && transfer.done() < last->done());
    if (later) last = &transfer;
  }
  return last != nullptr ? last->member() : -1;
}

bool StreamTransfers::ready(void* self) {
  StreamTransfers& transfers = *static_cast<StreamTransfers*>(self);
  const auto reached = [&] {
    return transfers.goal_ ? transfers.goal_() : transfers.other_.satisfied();
  };
  if (reached()) return true;
  transfers.progress();
  return reached();
}

Condition StreamTransfers::until(std::function<bool()> goal) {
  goal_ = std::move(goal);
  return {.counter = nullptr,
          .at_least = 0,
          .ready = &StreamTransfers::ready,
          .self = this,
          .member = awaited(),
          .moved = &moved_};
}

Condition StreamTransfers::until_finished() {
  return until([this] { return finished(); });
}

Condition StreamTransfers::meanwhile(const Condition& other) {
  if (transfers_.empty()) return other;
  goal_ = nullptr;
  other_ = other;
  return {.counter = nullptr,
          .at_least = 0,
          .ready = &StreamTransfers::ready,
          .self = this,
          .member = other.member,
          .moved = &moved_};
}

}  // namespace hvd::collectives
