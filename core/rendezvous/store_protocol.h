// SPDX-License-Identifier: Apache-2.0
// The messages between clients and the server of a store: a request and its reply, in turns.
// Numbers are little-endian. The form of frames, of the hello and of the reply to it is the same in
// all versions, so that versions can tell each other apart.
//   frame    uint32 body size, body
//   request  uint8 verb, uint8 0, uint16 key size, int64 number, key, value
//   reply    int32 code (hvd::Code), int32 0, int64 number, text
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/status.h"
#include "hvd/version.h"
#include "rendezvous/entry.h"

namespace hvd::rendezvous {

enum class Verb : uint8_t {
  kHello = 1,   // first, once: number is the rank or -1, key the job, value a greeting
  kSet = 2,     // key, value
  kGet = 3,     // key; number is the longest wait in ns, negative for ever
  kAdd = 4,     // key; number is the delta, and in the reply the sum
  kRemove = 5,  // key
};

// "hvd-store PROTOCOL VERSION": protocols must be equal, and so must the major versions of the
// library.
inline constexpr std::string_view kGreeting = "hvd-store 2 " HVD_VERSION_STRING;
inline constexpr size_t kLongestGreeting = 64;
inline constexpr size_t kFrameHeader = sizeof(uint32_t);
inline constexpr size_t kRequestHeader = 12;
inline constexpr size_t kReplyHeader = 16;
inline constexpr size_t kLargestRequest = kRequestHeader + kMaxKey + kMaxValue;
inline constexpr size_t kLargestHello = kRequestHeader + kMaxKey + kLongestGreeting;
inline constexpr size_t kLargestReply = kReplyHeader + kMaxValue;

// Points into the bytes it was read from.
struct Request {
  Verb verb = Verb::kHello;
  int64_t number = 0;
  std::string_view key;
  std::string_view value;
};
struct Reply {
  Code code = Code::kOk;
  int64_t number = 0;
  std::string_view text;  // the value or the error message
};

// Whether a rank that greets so can be served. kVersion naming both ends' versions, or
// kInvalidArgument for what is no greeting.
Status check_greeting(std::string_view greeting);

// Append a whole frame.
void put_request(Bytes& out, const Request& request);
void put_reply(Bytes& out, const Reply& reply);

// Read a body. Nothing if it is malformed, or a key or value breaks the limits.
std::optional<Request> read_request(std::span<const std::byte> body);
std::optional<Reply> read_reply(std::span<const std::byte> body);

}  // namespace hvd::rendezvous
