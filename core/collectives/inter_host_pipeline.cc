// SPDX-License-Identifier: Apache-2.0
#include "collectives/inter_host_pipeline.h"

#include <algorithm>

namespace hvd::collectives {

InterHostPipeline::InterHostPipeline(Setup setup, Effort& effort, Reduce reduce)
    : setup_(std::move(setup)),
      order_(setup_.blocks.count(), setup_.ahead, setup_.results),
      reduce_(std::move(reduce)),
      window_(std::min(setup_.ahead + 2, setup_.blocks.count())),
      transfers_(setup_.to.size() + setup_.from.size(), effort) {
  const size_t chunk = setup_.blocks.chunk();
  for (size_t i = 0; i < setup_.pieces.size(); ++i) {
    const size_t piece = static_cast<size_t>(setup_.pieces[i]);
    if (slot_of_.size() <= piece) slot_of_.resize(piece + 1);
    slot_of_[piece] = static_cast<int>(i);
  }
  // Left uninitialized: touching it first is the work of whoever fills it.
  buffer_ = std::make_unique_for_overwrite<std::byte[]>(window_ * setup_.pieces.size() * chunk);
  received_ = std::make_unique_for_overwrite<std::byte[]>(window_ * setup_.from.size() * chunk);
  add_transfers();
  update();
}

void InterHostPipeline::add_transfers() {
  const int mine = setup_.mine;
  for (const Peer& peer : setup_.to) {
    const auto locate = [this, mine, piece = peer.piece](size_t item) {
      const StreamOrder::Entry entry = order_.at(item);
      return place(entry.block, entry.result ? mine : piece, entry.result);
    };
    sends_.push_back(&transfers_.add(
        StreamTransfer(*peer.stream, peer.member, true, setup_.segments, order_.items(), locate)));
  }
  for (size_t i = 0; i < setup_.from.size(); ++i) {
    const Peer& peer = setup_.from[i];
    const auto locate = [this, mine, i, piece = peer.piece](size_t item) {
      const StreamOrder::Entry entry = order_.at(item);
      if (entry.result) return place(entry.block, piece, true);
      return Place{const_cast<std::byte*>(received(entry.block, i)), range(entry.block, mine),
                   false};
    };
    receives_.push_back(&transfers_.add(
        StreamTransfer(*peer.stream, peer.member, false, setup_.segments, order_.items(), locate)));
  }
  transfers_.on_items([this] { update(); });
}

std::byte* InterHostPipeline::buffer(size_t block, int piece) const {
  const size_t slot = block % window_ * setup_.pieces.size() +
                      static_cast<size_t>(slot_of_[static_cast<size_t>(piece)]);
  return buffer_.get() + slot * setup_.blocks.chunk();
}

const std::byte* InterHostPipeline::received(size_t block, size_t index) const {
  return received_.get() + (block % window_ * setup_.from.size() + index) * setup_.blocks.chunk();
}

Place InterHostPipeline::place(size_t block, int piece, bool outputs) const {
  if (piece == kNoPiece) return {};
  return {buffered() ? buffer(block, piece) : nullptr, range(block, piece), outputs};
}

size_t InterHostPipeline::least(const std::vector<StreamTransfer*>& transfers, size_t none,
                                size_t (StreamOrder::*count)(size_t) const,
                                const StreamOrder& order) {
  size_t least = none;
  for (const StreamTransfer* transfer : transfers)
    least = std::min(least, (order.*count)(transfer->done()));
  return least;
}

size_t InterHostPipeline::sent_results() const {
  return setup_.results ? least(sends_, reduced_, &StreamOrder::results_in, order_) : reduced_;
}

bool InterHostPipeline::has_room(size_t block) const {
  return block < window_ + std::min({released_, sent_inputs(), sent_results()});
}

bool InterHostPipeline::has_inputs(size_t block) const {
  return block < least(receives_, setup_.blocks.count(), &StreamOrder::inputs_in, order_);
}

bool InterHostPipeline::has_total(size_t block) const {
  if (!setup_.results) return block < reduced_;
  return block < least(receives_, reduced_, &StreamOrder::results_in, order_) && block < reduced_;
}

void InterHostPipeline::contribute(size_t blocks) {
  contributed_ = blocks;
  update();
}

void InterHostPipeline::reduced(size_t blocks) {
  reduced_ = blocks;
  update();
}

void InterHostPipeline::update() {
  while (reduce_ && reduced_ < contributed_ && has_inputs(reduced_)) {
    if (setup_.reduces_inputs && sent_inputs() <= reduced_) break;
    reduce_(*this, reduced_);
    ++reduced_;
  }
  for (StreamTransfer* transfer : sends_) transfer->allow(order_.reachable(contributed_, reduced_));
  const size_t room = std::min(setup_.blocks.count(), reduced_ + window_);
  for (StreamTransfer* transfer : receives_) transfer->allow(order_.reachable(room, contributed_));
}

}  // namespace hvd::collectives
