// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/store_protocol.h"

#include <algorithm>
#include <bit>

namespace hvd::rendezvous {

static_assert(std::endian::native == std::endian::little, "numbers would have to be swapped");

Status check_greeting(std::string_view greeting) {
  const bool printable =
      std::all_of(greeting.begin(), greeting.end(), [](char c) { return c >= ' ' && c <= '~'; });
  if (greeting.size() > kLongestGreeting || !printable || !greeting.starts_with("hvd-store")) {
    return {Code::kInvalidArgument, "no greeting"};
  }
  // "hvd-store 2 1.": the protocol and the major version.
  constexpr std::string_view kCommon = kGreeting.substr(0, kGreeting.find('.') + 1);
  if (greeting.starts_with(kCommon)) return {};
  return {Code::kVersion, "versions differ: this rank has " + std::string(greeting) +
                              ", the server " + std::string(kGreeting)};
}

void put_request(Bytes& out, const Request& request) {
  ByteWriter writer(out);
  writer.put(static_cast<uint32_t>(kRequestHeader + request.key.size() + request.value.size()));
  writer.put(static_cast<uint8_t>(request.verb));
  writer.put(uint8_t{0});
  writer.put(static_cast<uint16_t>(request.key.size()));
  writer.put(request.number);
  writer.put_text(request.key);
  writer.put_text(request.value);
}

void put_reply(Bytes& out, const Reply& reply) {
  ByteWriter writer(out);
  writer.put(static_cast<uint32_t>(kReplyHeader + reply.text.size()));
  writer.put(static_cast<int32_t>(reply.code));
  writer.put(int32_t{0});
  writer.put(reply.number);
  writer.put_text(reply.text);
}

std::optional<Request> read_request(std::span<const std::byte> body) {
  ByteReader reader(body);
  Request request;
  const auto verb = reader.get<uint8_t>();
  const auto zero = reader.get<uint8_t>();
  const auto key_size = reader.get<uint16_t>();
  request.number = reader.get<int64_t>();
  request.key = reader.take_text(key_size);
  request.value = reader.take_text(reader.left());
  if (!reader.ok() || zero != 0 || verb < 1 || verb > static_cast<uint8_t>(Verb::kRemove))
    return std::nullopt;
  request.verb = static_cast<Verb>(verb);
  const bool has_value = request.verb == Verb::kSet || request.verb == Verb::kHello;
  if (!has_value && !request.value.empty()) return std::nullopt;
  if (!check_entry(request.key, request.value).ok()) return std::nullopt;
  return request;
}

std::optional<Reply> read_reply(std::span<const std::byte> body) {
  ByteReader reader(body);
  Reply reply;
  reply.code = static_cast<Code>(reader.get<int32_t>());
  const auto zero = reader.get<int32_t>();
  reply.number = reader.get<int64_t>();
  reply.text = reader.take_text(reader.left());
  if (!reader.ok() || zero != 0 || reply.text.size() > kMaxValue) return std::nullopt;
  return reply;
}

}  // namespace hvd::rendezvous
