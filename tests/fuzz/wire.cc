// SPDX-License-Identifier: Apache-2.0
// Any bytes from a peer are either refused or understood; nothing is read beyond what was sent. The
// input is a series of records, who and two bytes of length and a message: from a member to the
// coordinator (who 0 to 2) or the other way (3). Inputs of odd length meet a coordinator of two
// members, which begins eager exchanges.
#include "negotiation/wire.h"

#include <algorithm>

#include "negotiation/coordinator.h"
#include "negotiation/member.h"
#include "target.h"

using namespace hvd;
using namespace hvd::negotiation;

namespace {

class Quiet final : public Coordinator::Out, public Member::Actions {
 public:
  void to_member(int, const Bytes&, bool, std::span<const std::byte>) override {}
  void to_coordinator(const Bytes&, bool, std::span<const std::byte>) override {}
  void mark(void*, uint32_t&) override {}
  void run(const PlanGroup& group, std::span<void* const> tokens) override {
    FUZZ_CHECK(tokens.size() == group.entries.size() && !tokens.empty());
  }
  void finish(void* token, std::span<const std::byte>, const Agreement&) override {
    FUZZ_CHECK(token != nullptr);
  }
  void finish_with(void* token, std::span<const std::byte>, uint64_t) override {
    FUZZ_CHECK(token != nullptr);
  }
  void fail(void* token, const Status& why) override { FUZZ_CHECK(token != nullptr && !why.ok()); }
  void missing(void*, std::span<const int64_t>, std::string_view) override {}
  std::string whereabouts(std::string_view name) override {
    return name.size() % 2 == 0 ? "waits" : "";
  }
  void close(const Status&) override {}
};

// Reads every byte that a real reduction would.
void read_all(const Signature& signature, std::span<const int>,
              std::span<const std::byte* const> sources, std::span<std::byte> out) {
  size_t bytes = 0;
  for (const TensorShape& tensor : signature.tensors)
    bytes += element_count(tensor.dims) * dtype_size(tensor.dtype);
  FUZZ_CHECK(bytes <= 1 << 20 && bytes == out.size());  // it has arrived in a message
  std::fill(out.begin(), out.end(), std::byte{0});
  for (const std::byte* source : sources) {
    for (size_t i = 0; source != nullptr && i < bytes; ++i) out[i] ^= source[i];
  }
}

void submit(Member& member, void* token, std::string_view name, bool eager = false) {
  static const Bytes barrier = [] {
    Bytes bytes;
    SignatureWriter(bytes, OpKind::kBarrier, ReduceOp::kSum, 0, 1, 1, 0);
    return bytes;
  }();
  static const Bytes sum = [] {
    Bytes bytes;
    SignatureWriter(bytes, OpKind::kAllreduce, ReduceOp::kSum, 0, 1, 1, 1)
        .tensor(DType::kUint8, {});
    return bytes;
  }();
  static const std::byte payload[1] = {};
  const Bytes& signature = eager ? sum : barrier;
  Submission submission;
  submission.eager = eager;
  if (eager) submission.payload = payload;
  submission.token = token;
  submission.name = name;
  submission.signature = signature;
  member.submit(submission);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Quiet quiet;
  CoordinatorSettings settings;
  settings.eager_exchange = size % 2 == 1;
  settings.ranks = settings.eager_exchange ? std::vector<int>{0, 1} : std::vector<int>{0, 1, 2};
  settings.fusion_threshold = 1 << 20;
  settings.cache_capacity = 4;
  settings.reduce = read_all;
  settings.describe = [](int rank) { return "rank " + std::to_string(rank); };
  Coordinator coordinator(settings, quiet);
  Member member(0, 4, quiet);
  submit(member, &quiet, "a");
  submit(member, &settings, "b");
  submit(member, &coordinator, "c", true);
  member.flush();

  ByteReader in(std::as_bytes(std::span(data, size)));
  while (in.ok() && !in.at_end()) {
    const auto who = in.get<uint8_t>();
    const auto length = in.get<uint16_t>();
    const auto bytes = in.take(std::min<size_t>(length, in.left()));
    // A copy of exact size, so that a sanitizer sees the first byte read beyond the end.
    const Bytes message(bytes.begin(), bytes.end());
    ByteReader reader(message);
    MessageHead head;
    if (!get_head(reader, &head)) continue;
    const int from = who % 4 % static_cast<int>(settings.ranks.size());
    const Status status = who % 4 < 3 ? coordinator.on_message(from, head.type, reader, Time{})
                                      : member.on_message(head.type, reader);
    if (!status.ok()) return 0;  // the engine ends the job here
    coordinator.issue(Time{});
  }
  return 0;
}
