// SPDX-License-Identifier: Apache-2.0
// Any byte stream on a control connection is cut into frames within the limits, whatever pieces it
// comes in, and ends for good at the first frame that is none. The first byte of the input chooses
// the size of the pieces.
#include "transport/frames.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "target.h"
#include "transport/ring.h"

using namespace hvd;
using namespace hvd::transport;

namespace {

struct Seen {
  std::string messages;  // each followed by its length
  FrameReader::Ending ending = FrameReader::Ending::kNone;
  bool operator==(const Seen&) const = default;
};

Seen read(const uint8_t* data, size_t size, size_t step) {
  FrameReader reader;
  Seen seen;
  for (size_t at = 0; at < size;) {
    const std::span<std::byte> room = reader.room();
    FUZZ_CHECK(!room.empty());
    const size_t count = std::min({step, size - at, room.size()});
    std::memcpy(room.data(), data + at, count);
    reader.filled(count);
    at += count;
    while (const auto message = reader.next()) {
      const auto bytes = message->bytes;
      FUZZ_CHECK(bytes.size() <= kMaxMessage && bytes.size() <= size &&
                 message->apart <= kMaxMessage - bytes.size());
      seen.messages.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      seen.messages +=
          "|" + std::to_string(bytes.size()) + "+" + std::to_string(message->apart) + "|";
    }
    if (reader.ending() != FrameReader::Ending::kNone) FUZZ_CHECK(!reader.next());
  }
  seen.ending = reader.ending();
  return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const Seen whole = read(data + 1, size - 1, size);
  FUZZ_CHECK(whole == read(data + 1, size - 1, size_t{1} + data[0]));
  return 0;
}
