// SPDX-License-Identifier: Apache-2.0
// A coordinator and its members with nothing around them: what is sent for one operation, what each
// member is told, and in what words. Random orders and faults are the business of tests/model.
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "negotiation/coordinator.h"
#include "negotiation/member.h"

namespace hvd::negotiation {
namespace {

// One process set. Ranks are 10, 11, ...; so a text that gives a member's index for its rank is
// seen.
class Set final : public Coordinator::Out {
 public:
  explicit Set(int size, size_t cache_capacity = 1024) {
    CoordinatorSettings settings;
    for (int member = 0; member < size; ++member) settings.ranks.push_back(10 + member);
    settings.fusion_threshold = 1 << 20;
    settings.cache_capacity = cache_capacity;
    settings.reduce = [this](const Signature&, std::span<const int>,
                             std::span<const std::byte* const> sources, std::span<std::byte> out) {
      for (const std::byte* source : sources) reduced += static_cast<char>(*source);
      out[0] = std::byte{'='};
    };
    settings.describe = [](int rank) { return "rank " + std::to_string(rank); };
    coordinator_ = std::make_unique<Coordinator>(std::move(settings), *this);
    for (int member = 0; member < size; ++member)
      ends_.push_back(std::make_unique<End>(*this, member, cache_capacity));
  }

  // Announces an operation and delivers all that follows. Equal names are equal tokens.
  void submit(int member, const std::string& name, DType dtype = DType::kFloat32,
              char payload = 0) {
    announce(member, name, dtype, payload);
    settle();
  }
  void announce(int member, const std::string& name, DType dtype = DType::kFloat32,
                char payload = 0) {
    Kept& kept = *kept_.emplace_back(std::make_unique<Kept>());
    kept.key = std::string(1, key_mark(OpKind::kAllreduce, false)) + name;
    kept.payload = std::byte{static_cast<unsigned char>(payload)};
    SignatureWriter(kept.signature, OpKind::kAllreduce, ReduceOp::kSum, 0, 1.0, 1.0, 1)
        .tensor(dtype, {});
    Submission submission;
    submission.token = &kept;
    submission.name = kept.key;
    submission.signature = kept.signature;
    submission.print = fingerprint(kept.signature);
    submission.eager = payload != 0;
    if (submission.eager) submission.payload = {&kept.payload, 1};
    of(member).submit(submission);
  }
  void settle() {
    for (const auto& end : ends_) end->member.flush();
    do {
      while (!messages_.empty()) {
        const Message message = std::move(messages_.front());
        messages_.pop_front();
        deliver(message);
      }
      coordinator_->issue(Time{});
      coordinator_->end_withdrawn();
    } while (!messages_.empty());
  }

  Member& of(int member) { return ends_[static_cast<size_t>(member)]->member; }
  Coordinator& coordinator() { return *coordinator_; }
  // What the member was told since the last call.
  std::string told(int member) {
    return std::exchange(ends_[static_cast<size_t>(member)]->told, {});
  }
  // Bytes that members have sent since the last call.
  size_t sent() { return std::exchange(sent_, 0); }
  const Status& fault() const { return fault_; }

  std::string reduced;  // the payloads, as they came to the reduction

  void to_member(int member, const Bytes& message, bool,
                 std::span<const std::byte> payload) override {
    push(member, false, message, payload);
  }

 private:
  struct Kept {
    std::string key;
    Bytes signature;
    std::byte payload{};
  };

  struct End final : public Member::Actions {
    End(Set& set, int index, size_t cache_capacity)
        : set_(set), index_(index), member(7, cache_capacity, *this) {}

    void to_coordinator(const Bytes& message, bool, std::span<const std::byte> payload) override {
      set_.sent_ += message.size() + payload.size();
      set_.push(index_, true, message, payload);
    }
    void mark(void*, uint32_t&) override {}
    void run(const PlanGroup&, std::span<void* const> tokens) override {
      told += "run";
      for (void* token : tokens) told += " " + name(token);
      told += "; ";
    }
    void finish(void* token, std::span<const std::byte> result, const Agreement&) override {
      told += "finish " + name(token) + " " + std::string(as_text(result)) + "; ";
    }
    void finish_with(void* token, std::span<const std::byte>, uint64_t) override {
      told += "finish with offer " + name(token) + "; ";
    }
    void fail(void*, const Status& why) override { told += "fail " + why.message() + "; "; }
    void missing(void*, std::span<const int64_t> ranks, std::string_view text) override {
      told += "missing:";
      for (const int64_t rank : ranks) told += " " + std::to_string(rank);
      told += ": " + std::string(text) + "; ";
    }
    std::string whereabouts(std::string_view) override { return "waits elsewhere"; }
    void close(const Status& why) override { told += "close " + why.message() + "; "; }

    static std::string name(void* token) {
      return std::string(name_of(static_cast<Kept*>(token)->key));
    }

   private:
    Set& set_;
    int index_;

   public:
    Member member;
    std::string told;
  };

  struct Message {
    int member = 0;
    bool for_coordinator = false;
    Bytes bytes;
  };

  void push(int member, bool for_coordinator, const Bytes& message,
            std::span<const std::byte> payload) {
    Bytes bytes = message;
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    messages_.push_back({member, for_coordinator, std::move(bytes)});
  }

  void deliver(const Message& message) {
    ByteReader in(message.bytes);
    MessageHead head;
    ASSERT_TRUE(get_head(in, &head));
    const Status status = message.for_coordinator
                              ? coordinator_->on_message(message.member, head.type, in, Time{})
                              : of(message.member).on_message(head.type, in);
    if (fault_.ok()) fault_ = status;
  }

  std::unique_ptr<Coordinator> coordinator_;
  std::vector<std::unique_ptr<End>> ends_;
  std::vector<std::unique_ptr<Kept>> kept_;
  std::deque<Message> messages_;
  size_t sent_ = 0;
  Status fault_;
};

TEST(Agreement, ASecondUseTravelsAsANumber) {
  Set set(2);
  const std::string name(200, 'n');
  set.submit(0, name);
  set.submit(1, name);
  const size_t first = set.sent();
  EXPECT_EQ(set.told(0), "run " + name + "; ");
  set.submit(0, name);
  set.submit(1, name);
  EXPECT_EQ(set.told(0), set.told(1).substr(name.size() + 6)) << "both have run both uses";
  EXPECT_GT(first, 400u);
  EXPECT_LT(set.sent(), 100u);
  for (const int member : {0, 1}) EXPECT_EQ(set.of(member).hits(), 1u);
  EXPECT_EQ(set.coordinator().cached_count(), 1u);
}

TEST(Agreement, ThoseWhoDifferAllHearTheSameAndTheNextUseWorks) {
  Set set(3);
  set.submit(0, "t");
  set.submit(1, "t");
  EXPECT_EQ(set.told(0), "");
  set.submit(2, "t", DType::kFloat16);
  const std::string text =
      "fail allreduce \"t\": dtype differs: rank 10 float32, rank 11 float32, rank 12 float16; ";
  for (const int member : {0, 1, 2}) EXPECT_EQ(set.told(member), text);
  for (const int member : {2, 1, 0}) set.submit(member, "t", DType::kFloat16);
  for (const int member : {0, 1, 2}) EXPECT_EQ(set.told(member), "run t; ");
  EXPECT_EQ(set.coordinator().counters().mismatches, 1u);
}

TEST(Agreement, WhatFusesIsRunTogetherInOneOrder) {
  Set set(2);
  for (const char* name : {"a", "b", "c"})
    set.announce(0, name, name[0] == 'b' ? DType::kFloat16 : DType::kFloat32);
  for (const char* name : {"c", "b", "a"})
    set.announce(1, name, name[0] == 'b' ? DType::kFloat16 : DType::kFloat32);
  set.settle();
  const std::string told = set.told(0);
  EXPECT_EQ(told, set.told(1));
  EXPECT_EQ(told, "run c a; run b; ");
  EXPECT_EQ(set.coordinator().counters().fused_tensors, 2u);
}

TEST(Agreement, PayloadsAreReducedInTheOrderOfMembers) {
  Set set(3);
  for (const int member : {2, 0, 1})
    set.submit(member, "t", DType::kUint8, static_cast<char>('a' + member));
  EXPECT_EQ(set.reduced, "abc");
  for (const int member : {0, 1, 2}) EXPECT_EQ(set.told(member), "finish t =; ");
}

TEST(Agreement, WhoComesAfterALimitFailsAtOnce) {
  Set set(3);
  set.submit(0, "t");
  set.submit(2, "t");
  set.of(0).withdraw(std::string(1, key_mark(OpKind::kAllreduce, false)) + "t",
                     std::chrono::seconds(3));
  set.settle();
  const std::string text = "fail allreduce \"t\": waited 3 s; missing ranks 11 of 3; ";
  EXPECT_EQ(set.told(0), text);
  EXPECT_EQ(set.told(2), text);
  set.submit(1, "t");
  EXPECT_EQ(set.told(1), text);
  for (const int member : {0, 1, 2}) set.submit(member, "t");
  for (const int member : {0, 1, 2}) EXPECT_EQ(set.told(member), "run t; ");
}

// A coordinator that stood still reads one member's withdrawal before another member's
// announcement.
TEST(Agreement, WhoseAnnouncementIsUnderWayIsNotCalledMissing) {
  Set set(3);
  const std::string key = std::string(1, key_mark(OpKind::kAllreduce, false)) + "t";
  set.announce(1, "t");
  set.of(1).flush();
  set.of(1).withdraw(key, std::chrono::seconds(1));
  set.announce(2, "t");
  set.settle();
  EXPECT_EQ(set.told(2), "fail allreduce \"t\": waited 1 s; missing ranks 10 of 3; ");
  for (const int member : {1, 2}) set.announce(member, "u");
  set.of(1).flush();
  set.of(1).withdraw(std::string(1, key_mark(OpKind::kAllreduce, false)) + "u",
                     std::chrono::seconds(1));
  set.announce(0, "u");
  set.settle();
  EXPECT_EQ(set.told(2), "run u; ") << "the withdrawal found nobody missing";
}

TEST(Agreement, TheMissingAreAskedWhatTheyWaitFor) {
  Set set(2);
  set.submit(0, "t");
  set.of(0).query(std::string(1, key_mark(OpKind::kAllreduce, false)) + "t");
  set.settle();
  EXPECT_EQ(set.told(0), "missing: 11: missing ranks 11 of 2; rank 11 waits elsewhere; ");
  EXPECT_EQ(set.told(1), "");
}

TEST(Agreement, AForgottenNumberIsAskedForInFull) {
  Set set(2, 1);
  for (int use = 0; use < 3; ++use) {
    for (const char* name : {"a", "b"}) {
      for (const int member : {0, 1}) set.submit(member, name);
    }
  }
  for (const int member : {0, 1})
    EXPECT_EQ(set.told(member), "run a; run b; run a; run b; run a; run b; ");
  EXPECT_GE(set.coordinator().counters().evictions, 4u);
  EXPECT_GT(set.of(0).hits(), 0u) << "no number was sent, so none can have been forgotten";
}

TEST(Agreement, ALeavingMemberClosesTheSet) {
  Set set(2);
  set.submit(0, "t");
  set.of(1).bye();
  set.settle();
  EXPECT_EQ(set.told(0), "close rank 11 shut down; ");
  EXPECT_TRUE(set.coordinator().closed());
  EXPECT_EQ(set.coordinator().pending_count(), 0u);
  EXPECT_TRUE(set.fault().ok());
}

TEST(Agreement, AMemberThatAnnouncesTwiceIsAtFault) {
  Set set(2);
  set.submit(0, "t");
  set.submit(0, "t");
  EXPECT_EQ(set.fault().code(), Code::kInternal);
  EXPECT_EQ(set.fault().message(), "rank 10 announced \"t\" twice");
}

TEST(Agreement, MessagesOfTheOtherSideAreRefused) {
  Set set(2);
  EXPECT_EQ(set.coordinator().on_message(0, MessageType::kPlan, ByteReader({}), Time{}).code(),
            Code::kInternal);
  EXPECT_EQ(set.of(0).on_message(MessageType::kReady, ByteReader({})).code(), Code::kInternal);
}

}  // namespace
}  // namespace hvd::negotiation
