// SPDX-License-Identifier: Apache-2.0
// Sequences of bytes from several clients to the server of a store. Whatever strangers send, a
// well-behaved client is served, and every reply can be read. The input is steps: client, size,
// that many bytes.
#include "rendezvous/store_service.h"

#include <algorithm>

#include "target.h"

using namespace hvd;
using namespace hvd::rendezvous;

namespace {

constexpr int kStrangers = 4;
constexpr int kFriend = 100;

// Takes what is there for a client and reads it as one reply.
void take(StoreService& service, int client, Time now) {
  const auto out = service.output(client);
  if (out.empty()) return;
  FUZZ_CHECK(out.size() >= kFrameHeader);
  FUZZ_CHECK(read_reply(out.subspan(kFrameHeader)).has_value());
  service.sent(client, out.size(), now);
}

void ask(StoreService& service, const Request& request, Time now) {
  Bytes bytes;
  put_request(bytes, request);
  FUZZ_CHECK(service.receive(kFriend, bytes, now));
  const auto reply = read_reply(service.output(kFriend).subspan(kFrameHeader));
  FUZZ_CHECK(reply && reply->code == Code::kOk);
  FUZZ_CHECK(request.verb != Verb::kGet || reply->text == "value");
  service.sent(kFriend, service.output(kFriend).size(), now);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Time now{std::chrono::hours(1)};
  StoreService service("job");
  service.connect(kFriend, now);
  ask(service, {Verb::kHello, -1, "job", kGreeting}, now);
  bool connected[kStrangers] = {};
  while (size >= 2) {
    const int client = data[0] % kStrangers;
    const size_t length = std::min<size_t>(data[1], size - 2);
    if (!connected[client]) service.connect(client, now);
    connected[client] = true;
    if (service.wants_input(client)) {
      connected[client] = service.receive(client, std::as_bytes(std::span(data + 2, length)), now);
      if (!connected[client]) service.drop(client);
    }
    // The high bits of the first byte decide whether the client reads and how the time passes.
    if (connected[client] && (data[0] & 0x80) == 0) take(service, client, now);
    if ((data[0] & 0x40) != 0) now += std::chrono::seconds(data[1]);
    for (int gone; (gone = service.tick(now)) >= 0;) {
      FUZZ_CHECK(gone < kStrangers && connected[gone]);
      service.drop(gone);
      connected[gone] = false;
    }
    FUZZ_CHECK(service.next_tick() > now);
    data += 2 + length;
    size -= 2 + length;
  }
  // Strangers that greeted properly may own any key but this one is written and read in turns.
  ask(service, {Verb::kSet, 0, "friend", "value"}, now);
  ask(service, {Verb::kGet, 0, "friend", {}}, now);
  ask(service, {Verb::kRemove, 0, "friend", {}}, now);
  return 0;
}
