// SPDX-License-Identifier: Apache-2.0
// The codec of control messages: what is written can be read again, and no cut or changed byte
// makes reading unsafe.
#include "negotiation/wire.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>

namespace hvd::negotiation {
namespace {

class Source {
 public:
  explicit Source(uint64_t seed) : random_(seed) {}
  uint64_t below(uint64_t limit) { return random_() % limit; }
  bool coin() { return below(2) == 0; }
  uint64_t any() { return random_(); }
  std::string text(size_t longest) {
    std::string text(below(longest + 1), ' ');
    for (char& c : text) c = static_cast<char>(below(256));
    return text;
  }
  std::vector<int64_t> numbers(size_t most) {
    std::vector<int64_t> numbers(below(most + 1));
    for (int64_t& number : numbers) number = static_cast<int64_t>(any());
    return numbers;
  }

 private:
  std::mt19937_64 random_;
};

// A copy of exact size, so that a sanitizer sees the first byte read beyond the end.
Bytes exact(std::span<const std::byte> bytes) { return Bytes(bytes.begin(), bytes.end()); }

template <class Read>
void expect_every_cut_refused(const Bytes& whole, const Read& read) {
  for (size_t size = 0; size < whole.size(); ++size) {
    const Bytes cut = exact(std::span(whole).first(size));
    EXPECT_FALSE(read(cut)) << size << " of " << whole.size() << " bytes were accepted";
  }
}

TEST(Wire, HeadRoundTrip) {
  for (uint8_t type = 1; type <= static_cast<uint8_t>(MessageType::kAbort); ++type) {
    Bytes bytes;
    put_head(bytes, {static_cast<MessageType>(type), 0xfedcba98u});
    EXPECT_EQ(bytes.size(), kHeadBytes);
    ByteReader in(bytes);
    MessageHead head;
    ASSERT_TRUE(get_head(in, &head));
    EXPECT_EQ(static_cast<uint8_t>(head.type), type);
    EXPECT_EQ(head.set, 0xfedcba98u);
    EXPECT_TRUE(in.at_end());
    expect_every_cut_refused(bytes, [](const Bytes& cut) {
      ByteReader reader(cut);
      MessageHead ignored;
      return get_head(reader, &ignored);
    });
  }
}

TEST(Wire, UnknownTypesAreRefused) {
  for (const int type : {0, static_cast<int>(MessageType::kRetracted) + 1, 255}) {
    Bytes bytes(kHeadBytes);
    bytes[0] = static_cast<std::byte>(type);
    ByteReader in(bytes);
    MessageHead head;
    EXPECT_FALSE(get_head(in, &head)) << type;
  }
}

struct ReadyValue {
  ReadyEntry entry;
  std::string name, signature, payload;
};

void fill_ready(Source& source, ReadyValue* value) {
  ReadyEntry& entry = value->entry;
  entry.id = source.coin() ? 0 : static_cast<uint32_t>(source.any() | 1);
  entry.priority = static_cast<int32_t>(source.any());
  entry.print = {source.any(), source.any()};
  entry.resent = source.coin();
  entry.exclusive = source.coin();
  entry.eager = source.coin();
  if (entry.id == 0) {
    value->name = "A" + source.text(300);
    value->signature = source.text(90);
    entry.name = value->name;
    entry.signature = as_byte_span(value->signature);
  }
  if (entry.eager) {
    value->payload = source.text(1100);
    entry.payload = as_byte_span(value->payload);
  }
  if (source.coin()) entry.variable = source.numbers(20);
}

void expect_equal(const ReadyEntry& a, const ReadyEntry& b) {
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.priority, b.priority);
  EXPECT_TRUE(a.print == b.print);
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(as_text(a.signature), as_text(b.signature));
  EXPECT_EQ(a.variable, b.variable);
  EXPECT_EQ(as_text(a.payload), as_text(b.payload));
  EXPECT_EQ(a.eager, b.eager);
  EXPECT_EQ(a.resent, b.resent);
  EXPECT_EQ(a.exclusive, b.exclusive);
}

TEST(Wire, ReadyRoundTrip) {
  Source source(1);
  // used again, as the coordinator does: nothing of an earlier message may shine through
  ReadyEntry back;
  for (int round = 0; round < 3000; ++round) {
    ReadyValue value;
    fill_ready(source, &value);
    Bytes bytes;
    put_ready(bytes, value.entry);
    put_payload(bytes, value.entry.payload);
    ByteReader in(bytes);
    ASSERT_TRUE(get_ready(in, &back));
    EXPECT_TRUE(in.at_end());
    expect_equal(value.entry, back);
    if (round % 50 != 0) continue;
    expect_every_cut_refused(bytes, [](const Bytes& cut) {
      ByteReader reader(cut);
      ReadyEntry ignored;
      return get_ready(reader, &ignored);
    });
  }
}

TEST(Wire, ReadyRefusesContradictions) {
  ReadyEntry entry;
  entry.id = 7;
  Bytes bytes;
  put_ready(bytes, entry);
  bytes[0] = std::byte{1};  // says "in full", but has an id
  ByteReader in(bytes);
  EXPECT_FALSE(get_ready(in, &entry));

  ReadyEntry named;
  const std::string name(5000, 'n');
  named.name = name;
  bytes.clear();
  put_ready(bytes, named);
  ByteReader long_name(bytes);
  EXPECT_FALSE(get_ready(long_name, &entry)) << "a name longer than any that submit accepts";
}

struct GroupValue {
  PlanGroup group;
  std::vector<std::string> names;
};

void fill_group(Source& source, GroupValue* value) {
  const size_t entries = 1 + source.below(6);
  value->names.resize(entries);
  value->group.has_outline = source.coin();
  value->group.without_joined = !value->group.has_outline && source.coin();
  value->group.path = static_cast<Path>(source.below(kPaths));
  for (std::string& name : value->names) {
    PlanEntry& entry = value->group.entries.emplace_back();
    entry.id = source.coin() ? 0 : static_cast<uint32_t>(source.any() | 1);
    name = entry.id == 0 ? "n" + source.text(40) : source.text(40);
    entry.name = name;
    entry.variable = source.numbers(8);
    if (!value->group.has_outline) continue;
    for (const int64_t count : source.numbers(4))
      entry.counts.push_back(static_cast<uint64_t>(count));
  }
  if (!value->group.has_outline) return;
  value->group.outline = {static_cast<DType>(source.below(11)),
                          static_cast<ReduceOp>(source.below(6)),
                          static_cast<double>(source.below(1000)) / 7, -1.0};
}

void expect_equal(const PlanGroup& a, const PlanGroup& b) {
  ASSERT_EQ(a.entries.size(), b.entries.size());
  ASSERT_EQ(a.has_outline, b.has_outline);
  ASSERT_EQ(a.without_joined, b.without_joined);
  for (size_t i = 0; i < a.entries.size(); ++i) {
    EXPECT_EQ(a.entries[i].id, b.entries[i].id);
    EXPECT_EQ(a.entries[i].name, b.entries[i].name);
    EXPECT_EQ(a.entries[i].variable, b.entries[i].variable);
    EXPECT_EQ(a.entries[i].counts, b.entries[i].counts);
  }
  if (!a.has_outline) return;
  EXPECT_EQ(a.path, b.path);
  EXPECT_EQ(a.outline.dtype, b.outline.dtype);
  EXPECT_EQ(a.outline.op, b.outline.op);
  EXPECT_EQ(a.outline.prescale, b.outline.prescale);
  EXPECT_EQ(a.outline.postscale, b.outline.postscale);
}

TEST(Wire, GroupRoundTrip) {
  Source source(2);
  PlanGroup back;
  for (int round = 0; round < 3000; ++round) {
    GroupValue value;
    fill_group(source, &value);
    Bytes bytes;
    put_group(bytes, value.group);
    ByteReader in(bytes);
    ASSERT_TRUE(get_group(in, &back));
    EXPECT_TRUE(in.at_end());
    expect_equal(value.group, back);
    if (round % 50 != 0) continue;
    expect_every_cut_refused(bytes, [](const Bytes& cut) {
      ByteReader reader(cut);
      PlanGroup ignored;
      return get_group(reader, &ignored);
    });
  }
}

TEST(Wire, HugeCountsAllocateNothingHuge) {
  // Counts that no message can hold must fail by the bytes that are missing, not by memory.
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.put(std::numeric_limits<uint32_t>::max());
  writer.put(uint8_t{0});
  writer.put(uint8_t{1});
  writer.put(uint32_t{1});
  put_short_text(bytes, "x");
  writer.put(std::numeric_limits<uint32_t>::max());
  ByteReader in(bytes);
  PlanGroup group;
  EXPECT_FALSE(get_group(in, &group));
  EXPECT_LE(group.entries.capacity(), 16u);
}

TEST(Wire, StatusRoundTrip) {
  for (const Code code : {Code::kMismatch, Code::kTimeout, Code::kPeerLost, Code::kInternal}) {
    Bytes bytes;
    put_status(bytes, Status(code, "rank 3 went away").with_rank(3));
    ByteReader in(bytes);
    Status back;
    ASSERT_TRUE(get_status(in, &back));
    EXPECT_EQ(back.code(), code);
    EXPECT_EQ(back.message(), "rank 3 went away");
    EXPECT_EQ(back.rank(), 3);
    expect_every_cut_refused(bytes, [](const Bytes& cut) {
      ByteReader reader(cut);
      Status ignored;
      return get_status(reader, &ignored);
    });
  }
  Bytes bytes;
  put_status(bytes, Status());
  ByteReader in(bytes);
  Status back;
  EXPECT_FALSE(get_status(in, &back)) << "success is no reason for a failure";
}

TEST(Wire, TextsAreCutAt65535Bytes) {
  Bytes bytes;
  put_short_text(bytes, std::string(70000, 'x'));
  ByteReader in(bytes);
  EXPECT_EQ(get_short_text(in).size(), 65535u);
  EXPECT_TRUE(in.at_end());
}

TEST(Wire, NoiseNeverCrashes) {
  Source source(3);
  for (int round = 0; round < 20000; ++round) {
    const std::string noise = source.text(80);
    const Bytes bytes = exact(as_byte_span(noise));
    ByteReader a(bytes), b(bytes), c(bytes);
    ReadyEntry entry;
    PlanGroup group;
    Status status;
    if (get_ready(a, &entry)) {
      EXPECT_LE(entry.variable.size(), bytes.size() / 8);
    }
    if (get_group(b, &group)) {
      EXPECT_LE(group.entries.size(), bytes.size() / 10);
    }
    if (get_status(c, &status)) {
      EXPECT_LT(static_cast<int32_t>(status.code()), 0);
    }
  }
}

}  // namespace
}  // namespace hvd::negotiation
