// SPDX-License-Identifier: Apache-2.0
// Moving bytes between tensors or buffers and streams to other hosts, several streams and both
// directions at once.
//
// A stream carries items, numbered from 0 in each direction, one after another and without headers.
// The two ends compute by the same arithmetic what item i is and how many bytes it has.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "collectives/effort.h"
#include "collectives/program.h"
#include "collectives/virtual_vector.h"
#include "transport/stream.h"

namespace hvd::collectives {

// Where the bytes of an item are.
struct Place {
  std::byte* flat = nullptr;  // null: in the segments, of which `range` says which bytes
  Range range{0, 0};          // with flat only its size counts
  bool outputs = false;       // the outputs of the segments rather than the inputs
};

// A direction of a stream, for one operation.
class StreamTransfer {
 public:
  using Locate = std::function<Place(size_t item)>;

  // The segments outlive the transfer.
  StreamTransfer(transport::Stream& stream, int member, bool sending,
                 std::span<const Segment> segments, size_t items, Locate locate)
      : stream_(&stream),
        member_(member),
        sending_(sending),
        cursor_(segments),
        items_(items),
        locate_(std::move(locate)) {}

  // The first `items` may move, because their bytes are there, or there is room for them. Never
  // less than before.
  void allow(size_t items) { allowed_ = items; }
  size_t done() const { return done_; }
  bool finished() const { return done_ == items_; }
  bool sending() const { return sending_; }
  int member() const { return member_; }

  enum class Moved { kNothing, kSomething, kAll };  // the rest of the allowed items
  // Makes one call of the system at most, and counts what was sent. kNothing also if no item is
  // allowed; idle() tells.
  Moved move(Effort& effort);
  bool idle() const { return done_ >= allowed_; }

 private:
  static constexpr size_t kVectors = 64;
  size_t collect(std::span<iovec> vectors, size_t& bytes);
  void advance(size_t bytes);
  void begin_item() {
    if (!begun_) current_ = locate_(done_);
    begun_ = true;
  }

  transport::Stream* stream_;
  int member_;
  bool sending_;
  Cursor cursor_;
  size_t items_;
  Locate locate_;
  size_t allowed_ = 0;
  size_t done_ = 0;
  Place current_;  // the rest of item done_, if begun
  bool begun_ = false;
};

// The transfers of one operation. Neither copied nor moved: conditions point to it.
class StreamTransfers {
 public:
  // The effort outlives the transfers.
  StreamTransfers(size_t most, Effort& effort) : effort_(effort) { transfers_.reserve(most); }
  StreamTransfers(const StreamTransfers&) = delete;
  StreamTransfers& operator=(const StreamTransfers&) = delete;

  // References stay valid: there are at most as many transfers as the constructor was told.
  StreamTransfer& add(StreamTransfer transfer) {
    return transfers_.emplace_back(std::move(transfer));
  }
  // Called when items have arrived or left; allows more.
  void on_items(std::function<void()> react) { react_ = std::move(react); }

  // Moves what can be moved now.
  void progress();
  bool finished() const;

  // To be awaited, one at a time; while they are, bytes move.
  Condition until(std::function<bool()> goal);
  Condition until_finished();
  Condition meanwhile(const Condition& other);

 private:
  static bool ready(void* self);
  int awaited() const;

  Effort& effort_;
  std::vector<StreamTransfer> transfers_;
  std::vector<bool> stuck_;  // per transfer, during progress()
  std::function<void()> react_;
  std::function<bool()> goal_;
  Condition other_{};
  bool moved_ = false;
};

}  // namespace hvd::collectives
