// SPDX-License-Identifier: Apache-2.0
// Moving bytes to and from members on other hosts, all at once: nothing waits for a send while something can be received.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <span>
#include <vector>

#include "collectives/program.h"
#include "collectives/virtual_vector.h"
#include "transport/stream.h"

namespace hvd::collectives {

// A set of transfers that finish together. Add them, then await done(). A stream carries the transfers of one direction one
// after another, so there is at most one per stream and direction in a set. Moving an Exchange invalidates it.
class Exchange {
 public:
  explicit Exchange(int members) { legs_.reserve(2 * static_cast<size_t>(members)); }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  void clear() { legs_.clear(); }
  void send(transport::Stream& stream, const std::byte* from, size_t bytes) { add(stream, {from, nullptr, bytes}); }
  void receive(transport::Stream& stream, std::byte* to, size_t bytes) { add(stream, {nullptr, to, bytes}); }
  // The inputs, or into the outputs, of the parts in `range`.
  void send(transport::Stream& stream, std::span<const Part> parts, Range range) { add(stream, parts, range, true); }
  void receive(transport::Stream& stream, std::span<const Part> parts, Range range) { add(stream, parts, range, false); }

  // `member`: whom to name as the one that is waited for.
  Condition done(int member) {
    return {.counter = nullptr, .at_least = 0, .ready = &Exchange::ready, .self = this, .member = member};
  }

 private:
  static constexpr size_t kVectors = 16;
  struct Leg {
    Leg(transport::Stream& stream_in, Part flat_in)
        : stream(&stream_in), flat(flat_in), cursor({&flat, 1}), left{0, flat_in.bytes}, sending(flat_in.in != nullptr) {}
    Leg(transport::Stream& stream_in, std::span<const Part> parts, Range range, bool send)
        : stream(&stream_in), flat{}, cursor(parts), left(range), sending(send) {}
    transport::Stream* stream;
    Part flat;  // what the cursor walks over if there are no parts
    Cursor cursor;
    Range left;
    bool sending;
  };

  void add(transport::Stream& stream, Part flat) {
    if (flat.bytes != 0) legs_.emplace_back(stream, flat);
  }
  void add(transport::Stream& stream, std::span<const Part> parts, Range range, bool send) {
    if (range.begin < range.end) legs_.emplace_back(stream, parts, range, send);
  }

  static void move(Leg& leg) {
    while (leg.left.begin < leg.left.end) {
      iovec vectors[kVectors];
      const size_t used =
          leg.cursor.first_stretches(leg.left, kVectors, [&](size_t i, const Part& part, size_t offset, size_t length) {
            const std::byte* base = leg.sending ? part.in : part.out;
            vectors[i] = {const_cast<std::byte*>(base) + offset, length};
          });
      const std::span<const iovec> pieces(vectors, used);
      const size_t moved = leg.sending ? leg.stream->send_some(pieces) : leg.stream->receive_some(pieces);
      if (moved == 0) return;
      leg.left.begin += moved;
    }
  }

  static bool ready(void* self) {
    bool all = true;
    for (Leg& leg : static_cast<Exchange*>(self)->legs_) {
      if (leg.left.begin < leg.left.end) move(leg);
      all &= leg.left.begin >= leg.left.end;
    }
    return all;
  }

  std::vector<Leg> legs_;  // never grows beyond what is reserved: cursors point into it
};

}  // namespace hvd::collectives
