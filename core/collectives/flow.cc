// SPDX-License-Identifier: Apache-2.0
#include "collectives/flow.h"

#include <algorithm>

namespace hvd::collectives {

namespace {

// So often progress() goes round before the engine looks at everything else again.
constexpr int kSweeps = 16;

}  // namespace

// The next stretches of all items that may move.
size_t Flow::collect(std::span<iovec> vectors, size_t& bytes) {
  size_t used = 0;
  for (size_t item = done_; item < allowed_ && used < vectors.size(); ++item) {
    const Place place = item == done_ ? current_ : locate_(item);
    if (place.flat != nullptr) {
      if (place.range.size() != 0) vectors[used++] = {place.flat, place.range.size()};
      bytes += place.range.size();
      continue;
    }
    const size_t first = used;
    used += cursor_.first_stretches(place.range, vectors.size() - used,
                                    [&](size_t i, const Part& part, size_t offset, size_t length) {
                                      std::byte* base = place.outputs ? part.out : const_cast<std::byte*>(part.in);
                                      vectors[first + i] = {base + offset, length};
                                      bytes += length;
                                    });
  }
  return used;
}

void Flow::advance(size_t bytes) {
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

Flow::Moved Flow::move() {
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
  advance(bytes);
  return bytes == wanted ? Moved::kAll : Moved::kSomething;
}

// A stream that took or gave less than asked is not asked again before the next call.
void Flows::progress() {
  stuck_.assign(flows_.size(), false);
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    bool again = false;
    for (size_t i = 0; i < flows_.size(); ++i) {
      Flow& flow = flows_[i];
      if (stuck_[i] || flow.idle()) continue;
      const size_t before = flow.done();
      const Flow::Moved moved = flow.move();
      stuck_[i] = moved != Flow::Moved::kAll;
      if (moved == Flow::Moved::kNothing) continue;
      moved_ = again = true;
      if (flow.done() != before && react_) react_();
    }
    if (!again) return;
  }
}

bool Flows::finished() const {
  return std::all_of(flows_.begin(), flows_.end(), [](const Flow& flow) { return flow.finished(); });
}

// Whose bytes are missing most.
int Flows::awaited() const {
  const Flow* last = nullptr;
  for (const Flow& flow : flows_) {
    if (flow.finished()) continue;
    const bool later = last == nullptr || (last->sending() && !flow.sending()) ||
                       (last->sending() == flow.sending() && flow.done() < last->done());
    if (later) last = &flow;
  }
  return last != nullptr ? last->member() : -1;
}

bool Flows::ready(void* self) {
  Flows& flows = *static_cast<Flows*>(self);
  const auto reached = [&] { return flows.goal_ ? flows.goal_() : flows.other_.satisfied(); };
  if (reached()) return true;
  flows.progress();
  return reached();
}

Condition Flows::until(std::function<bool()> goal) {
  goal_ = std::move(goal);
  return {.counter = nullptr, .at_least = 0, .ready = &Flows::ready, .self = this, .member = awaited(), .moved = &moved_};
}

Condition Flows::until_finished() {
  return until([this] { return finished(); });
}

Condition Flows::meanwhile(const Condition& other) {
  if (flows_.empty()) return other;
  goal_ = nullptr;
  other_ = other;
  return {.counter = nullptr, .at_least = 0, .ready = &Flows::ready, .self = this, .member = other.member, .moved = &moved_};
}

}  // namespace hvd::collectives
