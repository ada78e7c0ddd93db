// SPDX-License-Identifier: Apache-2.0
#include "negotiation/wire.h"

#include "negotiation/signature.h"

namespace hvd::negotiation {

namespace {

constexpr uint8_t kFull = 1;
constexpr uint8_t kVariable = 2;
constexpr uint8_t kEager = 4;
constexpr uint8_t kResent = 8;
constexpr uint8_t kExclusive = 16;
// Flags of a group.
constexpr uint8_t kOutline = 1;
constexpr uint8_t kWithoutJoined = 2;

}  // namespace

void put_numbers(ByteWriter& writer, const std::vector<int64_t>& values) {
  writer.put(static_cast<uint32_t>(values.size()));
  writer.put_bytes(std::as_bytes(std::span(values)));
}

bool get_numbers(ByteReader& in, std::vector<int64_t>* out) {
  const auto count = in.get<uint32_t>();
  const auto raw = in.take(static_cast<size_t>(count) * sizeof(int64_t));
  if (!in.ok()) return false;
  out->resize(count);
  if (count > 0) std::memcpy(out->data(), raw.data(), raw.size());
  return true;
}

void put_head(Bytes& out, MessageHead head) {
  ByteWriter writer(out);
  writer.put(static_cast<uint8_t>(head.type));
  writer.put(head.set);
}

bool for_coordinator(MessageType type) {
  switch (type) {
    case MessageType::kReady:
    case MessageType::kQuery:
    case MessageType::kWithdraw:
    case MessageType::kBye:
    case MessageType::kElsewhere:
    case MessageType::kRetracted: return true;
    default: return false;
  }
}

bool get_head(ByteReader& in, MessageHead* out) {
  const auto type = in.get<uint8_t>();
  out->set = in.get<uint32_t>();
  if (!in.ok() || type < 1 || type > static_cast<uint8_t>(MessageType::kRetracted)) return false;
  out->type = static_cast<MessageType>(type);
  return true;
}

std::span<const std::byte> put_payload(Bytes& message, std::span<const std::byte> payload) {
  if (payload.size() > kCopiedPayload) return payload;
  ByteWriter(message).put_bytes(payload);
  return {};
}

void drop_large(Bytes& kept) {
  if (kept.capacity() > kCopiedPayload) kept = Bytes();
}

void put_ready(Bytes& out, const ReadyEntry& entry) {
  ByteWriter writer(out);
  const bool full = entry.id == 0;
  writer.put(static_cast<uint8_t>((full ? kFull : 0) | (entry.variable.empty() ? 0 : kVariable) |
                                  (entry.eager ? kEager : 0) | (entry.resent ? kResent : 0) |
                                  (entry.exclusive ? kExclusive : 0)));
  writer.put(entry.id);
  writer.put(entry.priority);
  writer.put(entry.print.high);
  writer.put(entry.print.low);
  if (full) {
    put_short_text(out, entry.name);
    writer.put(static_cast<uint32_t>(entry.signature.size()));
    writer.put_bytes(entry.signature);
  }
  if (!entry.variable.empty()) put_numbers(writer, entry.variable);
  if (entry.eager) writer.put(static_cast<uint32_t>(entry.payload.size()));
}

bool get_ready(ByteReader& in, ReadyEntry* out) {
  const auto flags = in.get<uint8_t>();
  out->id = in.get<uint32_t>();
  out->priority = in.get<int32_t>();
  out->print.high = in.get<uint64_t>();
  out->print.low = in.get<uint64_t>();
  out->name = {};
  out->signature = {};
  out->variable.clear();
  out->payload = {};
  out->eager = (flags & kEager) != 0;
  out->resent = (flags & kResent) != 0;
  out->exclusive = (flags & kExclusive) != 0;
  if (((flags & kFull) != 0) != (out->id == 0)) return false;
  if ((flags & kFull) != 0) {
    out->name = get_short_text(in);
    out->signature = in.take(in.get<uint32_t>());
    if (!in.ok() || out->name.empty() || out->name.size() > kMaxNameBytes + 16) return false;
  }
  if ((flags & kVariable) != 0 && !get_numbers(in, &out->variable)) return false;
  if (out->eager) out->payload = in.take(in.get<uint32_t>());
  return in.ok();
}

void put_plan_entry(Bytes& out, const PlanEntry& entry) {
  ByteWriter writer(out);
  writer.put(entry.id);
  put_short_text(out, entry.name);
  put_numbers(writer, entry.variable);
  writer.put(entry.agreement.use);
  writer.put(entry.agreement.spread);
  writer.put(entry.agreement.last);
}

bool get_plan_entry(ByteReader& in, PlanEntry* out) {
  out->id = in.get<uint32_t>();
  out->name = get_short_text(in);
  if (!get_numbers(in, &out->variable)) return false;
  out->agreement.use = in.get<uint64_t>();
  out->agreement.spread = in.get<uint32_t>();
  out->agreement.last = in.get<uint32_t>();
  return in.ok() && (out->id != 0 || !out->name.empty());
}

void put_group(Bytes& out, const PlanGroup& group) {
  ByteWriter writer(out);
  writer.put(static_cast<uint32_t>(group.entries.size()));
  writer.put(static_cast<uint8_t>(group.path));
  writer.put(static_cast<uint8_t>((group.has_outline ? kOutline : 0) |
                                  (group.without_joined ? kWithoutJoined : 0)));
  for (const PlanEntry& entry : group.entries) put_plan_entry(out, entry);
  if (!group.has_outline) return;
  writer.put(static_cast<uint8_t>(group.outline.dtype));
  writer.put(static_cast<uint8_t>(group.outline.op));
  writer.put(group.outline.prescale);
  writer.put(group.outline.postscale);
  for (const PlanEntry& entry : group.entries) {
    writer.put(static_cast<uint32_t>(entry.counts.size()));
    for (const uint64_t count : entry.counts) writer.put(count);
  }
}

bool get_group(ByteReader& in, PlanGroup* out) {
  const auto entries = in.get<uint32_t>();
  const auto path = in.get<uint8_t>();
  if (path >= kPaths) return false;
  out->path = static_cast<Path>(path);
  const auto flags = in.get<uint8_t>();
  if (flags > kWithoutJoined) return false;  // a group has one flag or the other
  out->has_outline = flags == kOutline;
  out->without_joined = flags == kWithoutJoined;
  out->entries.clear();
  for (uint32_t i = 0; i < entries && in.ok(); ++i) {
    if (!get_plan_entry(in, &out->entries.emplace_back())) return false;
  }
  if (entries == 0 || !in.ok()) return false;
  if (!out->has_outline) return true;
  const auto dtype = in.get<uint8_t>();
  const auto op = in.get<uint8_t>();
  if (!dtype_valid(dtype) || op > static_cast<uint8_t>(ReduceOp::kProduct)) return false;
  out->outline.dtype = static_cast<DType>(dtype);
  out->outline.op = static_cast<ReduceOp>(op);
  out->outline.prescale = in.get<double>();
  out->outline.postscale = in.get<double>();
  for (PlanEntry& entry : out->entries) {
    const auto counts = in.get<uint32_t>();
    for (uint32_t i = 0; i < counts && in.ok(); ++i) entry.counts.push_back(in.get<uint64_t>());
  }
  return in.ok();
}

void put_short_text(Bytes& out, std::string_view text) {
  ByteWriter writer(out);
  text = text.substr(0, 65535);
  writer.put(static_cast<uint16_t>(text.size()));
  writer.put_text(text);
}

std::string_view get_short_text(ByteReader& in) { return in.take_text(in.get<uint16_t>()); }

void put_status(Bytes& out, const Status& status) {
  ByteWriter writer(out);
  writer.put(static_cast<int32_t>(status.code()));
  writer.put(static_cast<int32_t>(status.rank()));
  put_short_text(out, status.message());
}

bool get_status(ByteReader& in, Status* out) {
  const auto code = in.get<int32_t>();
  const auto rank = in.get<int32_t>();
  const std::string_view text = get_short_text(in);
  if (!in.ok() || code >= 0) return false;
  *out = Status(static_cast<Code>(code), std::string(text));
  out->with_rank(rank);
  return true;
}

}  // namespace hvd::negotiation
