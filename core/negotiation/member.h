// SPDX-License-Identifier: Apache-2.0
// The asking half of negotiation: a member announces this rank's operations to the coordinator of
// one process set and turns its answers into actions. The member keeps the response cache: names
// whose signature the set has agreed on travel as a number and a fingerprint. A member is a pure
// state machine, like Coordinator.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/status.h"
#include "negotiation/wire.h"

namespace hvd::negotiation {

// A submission is one operation to announce. Whatever its views point to stays valid until the
// operation has ended.
struct Submission {
  void* token = nullptr;  // given back in the actions
  std::string_view name;  // the operation's key, as everywhere in the negotiation
  std::span<const std::byte> signature;
  Fingerprint print;
  std::span<const int64_t> variable;
  std::span<const std::byte> payload;  // the payload of an eager operation
  bool eager = false;
  // No other operation of that name, of whatever kind, is in flight on this rank.
  bool exclusive = true;
  int32_t priority = 0;
};

class Member {
 public:
  // Actions are what the member decides. Tokens are those of Submission; nullptr stands for an
  // operation that this rank has not submitted but takes part in, because it has joined.
  class Actions {
   public:
    virtual ~Actions() = default;
    // `payload`, an operation's data, is the end of it.
    virtual void to_coordinator(const Bytes& message, bool urgent,
                                std::span<const std::byte> payload = {}) = 0;
    // Each name has a mark, 0 at first, that the actions may use as they like: called when an
    // operation of the name is submitted.
    virtual void mark(void* token, uint32_t& mark) = 0;
    virtual void run(const PlanGroup& group, std::span<void* const> tokens) = 0;
    // An eager operation.
    virtual void finish(void* token, std::span<const std::byte> result,
                        const Agreement& agreement) = 0;
    // The same, with the coordinator's payload in place of the result, for a set in which this
    // member is the only other one.
    virtual void finish_with(void* token, std::span<const std::byte> payload, uint64_t use) = 0;
    virtual void fail(void* token, const Status& why) = 0;
    // Answers query(): the ranks of the job that are missing, and a text about them.
    virtual void missing(void* token, std::span<const int64_t> ranks, std::string_view text) = 0;
    // Names what this rank waits for, while other ranks wait for this rank in the operation of that
    // name; empty: this rank waits for nothing.
    virtual std::string whereabouts(std::string_view name) = 0;
    virtual void close(const Status& why) = 0;  // no further plan will come
  };

  Member(uint32_t set, size_t cache_capacity, Actions& actions)
      : set_(set), cache_capacity_(cache_capacity), actions_(actions) {}

  // Adds to the batch that flush() sends.
  void submit(const Submission& submission);
  void flush();
  // Asks who is missing.
  void query(std::string_view name);
  void withdraw(std::string_view name, Duration waited);
  void bye();

  // `in` stands behind the head. An error means that the coordinator broke the protocol.
  Status on_message(MessageType type, ByteReader in);

  uint64_t hits() const { return hits_; }
  uint64_t misses() const { return misses_; }

 private:
  struct Name {
    std::string text;
    uint32_t id = 0;
    Fingerprint print;  // agreed together with id
    bool pending = false;
    // the coordinator got it with name and signature; like submission valid while pending
    bool in_full = false;
    Submission submission;
    // the coordinator's payload of the next use, which has not been submitted here yet
    bool has_payload = false;
    Bytes payload;
    uint64_t payload_use = 0;  // the number of that use
    uint32_t mark = 0;
  };

  Name* find(const PlanEntry& entry);
  void append_payload();
  void announce(Name& name, bool in_full, bool resent = false);
  Status on_plan(ByteReader& in);
  Status on_result(ByteReader& in);
  Status on_fail(ByteReader& in);
  Status on_eager_payload(ByteReader& in);
  Status on_retract(ByteReader& in);
  void take(Name& name, std::span<const std::byte> payload, uint64_t use);
  Status on_where(ByteReader& in);
  void learn(const PlanEntry& entry, Name* name);
  void* end(Name* name);
  void forget_excess();

  uint32_t set_;
  size_t cache_capacity_;
  Actions& actions_;
  std::unordered_map<std::string_view, std::unique_ptr<Name>> by_name_;  // views into Name::text
  std::unordered_map<uint32_t, Name*> by_id_;
  Bytes batch_;
  uint32_t batch_count_ = 0;
  // payload of the last entry, if that payload is not in batch_
  std::span<const std::byte> batch_payload_;
  size_t pending_ = 0;
  uint64_t hits_ = 0;
  uint64_t misses_ = 0;
  Bytes scratch_;
  PlanGroup group_;  // scratch of on_plan(), kept for its memory
  std::vector<void*> tokens_;
};

}  // namespace hvd::negotiation
