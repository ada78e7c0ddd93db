// SPDX-License-Identifier: Apache-2.0
// The part of a reduction that crosses between hosts, as one member sees it: for every block it
// sends its contribution to the pieces of others, receives theirs to its own piece and, if results
// are exchanged, sends its result and receives theirs. Several blocks are under way at once; blocks
// are handled in order, in four steps that all may lag behind one another:
//
//   contributed   own contributions to the pieces of all are there
//   reduced       the own piece holds its result
//   total         the results of all pieces are there
//   released      nobody here needs the block's buffer any more
//
// The contributions are either in the tensors, and results of others go into the tensors, or both
// are in a buffer of the pipeline. Memory depends on the window and the size of a block, not on the
// size of the tensors.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "collectives/patterns.h"
#include "collectives/stream_transfer.h"
#include "collectives/virtual_vector.h"

namespace hvd::collectives {

class InterHostPipeline {
 public:
  struct Peer {
    transport::Stream* stream;
    int member;  // whom to name
    int piece;   // its number among the blocks' owners, or kNoPiece
  };
  static constexpr int kNoPiece = -1;  // a piece without bytes

  struct Setup {
    std::span<const Segment> segments;
    Blocks blocks;
    int mine = 0;              // the own piece
    std::vector<Peer> to{};    // whose pieces get a contribution from here
    std::vector<Peer> from{};  // the contributors to the own piece
    // pieces that a block's buffer has room for, in this order; empty: the tensors have all
    std::vector<int> pieces{};
    bool results = true;  // exchanged: then `to` and `from` are the same
    // the reduction overwrites contributions, so sending them has to end before
    bool reduces_inputs = false;
    size_t ahead = 1;  // blocks
  };

  // `reduce`, if not null, is called for every block in order as soon as all contributions to the
  // own piece are there.
  using Reduce = std::function<void(InterHostPipeline& pipeline, size_t block)>;
  // The effort outlives the pipeline.
  InterHostPipeline(Setup setup, Effort& effort, Reduce reduce);

  bool buffered() const { return !setup_.pieces.empty(); }
  Range range(size_t block, int piece) const {
    return piece == kNoPiece ? Range{0, 0} : setup_.blocks.range(block, piece);
  }
  // A piece of a block in the buffer.
  std::byte* buffer(size_t block, int piece) const;
  // The contribution of from[index] to the own piece.
  const std::byte* received(size_t block, size_t index) const;

  bool has_room(size_t block) const;    // in the buffer
  bool has_inputs(size_t block) const;  // from all others
  bool has_total(size_t block) const;
  // All blocks before this one.
  void contribute(size_t blocks);
  void reduced(size_t blocks);
  void release(size_t blocks) { released_ = blocks; }

  // All is reduced, sent and received.
  Condition until_finished() {
    return transfers_.until(
        [this] { return reduced_ == setup_.blocks.count() && transfers_.finished(); });
  }

  StreamTransfers& transfers() { return transfers_; }

 private:
  static size_t least(const std::vector<StreamTransfer*>& transfers, size_t none,
                      size_t (StreamOrder::*count)(size_t) const, const StreamOrder& order);
  void add_transfers();
  void update();
  Place place(size_t block, int piece, bool outputs) const;
  size_t sent_inputs() const {
    return least(sends_, setup_.blocks.count(), &StreamOrder::inputs_in, order_);
  }
  size_t sent_results() const;

  const Setup setup_;
  const StreamOrder order_;
  const Reduce reduce_;
  const size_t window_;
  std::vector<int> slot_of_;               // per piece, the place in a block's buffer
  std::unique_ptr<std::byte[]> buffer_;    // window x pieces x chunk
  std::unique_ptr<std::byte[]> received_;  // window x from x chunk
  size_t contributed_ = 0;
  size_t reduced_ = 0;
  size_t released_ = 0;
  std::vector<StreamTransfer*> sends_;
  std::vector<StreamTransfer*> receives_;
  StreamTransfers transfers_;
};

}  // namespace hvd::collectives
