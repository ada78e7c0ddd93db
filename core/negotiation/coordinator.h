// SPDX-License-Identifier: Apache-2.0
// The deciding half of negotiation: the coordinator collects what the members of one process set
// have ready, checks that the members mean the same, and decides what runs next. The coordinator is
// a pure state machine without socket, thread or clock of its own. The same coordinator runs on the
// member with the lowest rank, in the simulator and in benchmarks.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "negotiation/arrivals.h"
#include "negotiation/signature.h"
#include "negotiation/wire.h"

namespace hvd::negotiation {

// Reduces the payloads of an eager operation; sources[m] == nullptr for members that have joined.
// `hosts`: as in the settings.
using EagerReduce =
    std::function<void(const Signature&, std::span<const int> hosts,
                       std::span<const std::byte* const> sources, std::span<std::byte> out)>;

struct CoordinatorSettings {
  uint32_t set = 0;
  std::vector<int> ranks;  // ranks of the job, ascending; index = member
  // per member its host, counted from 0; empty where the reduction does not go by hosts
  std::vector<int> hosts;
  int64_t fusion_threshold = 0;
  size_t cache_capacity = 0;
  bool look_ahead = true;
  Duration cycle_time{0};
  bool eager_exchange = false;  // whether the coordinator sends its payloads ahead; for two members
  EagerReduce reduce;
  std::shared_ptr<Arrivals> arrivals;             // when members came is noted here; may be empty
  std::function<std::string(int rank)> describe;  // "rank 3 (host a, pid 7)"
};

struct CoordinatorCounters {
  uint64_t mismatches = 0;
  uint64_t timeouts = 0;
  uint64_t evictions = 0;
  uint64_t fused_operations = 0;
  uint64_t fused_tensors = 0;
};

class Coordinator {
 public:
  // Receives the messages to send. Urgent ones must wake a sleeping member. `payload`, an
  // operation's data, is the end of it.
  class Out {
   public:
    virtual ~Out() = default;
    virtual void to_member(int member, const Bytes& message, bool urgent,
                           std::span<const std::byte> payload = {}) = 0;
  };

  Coordinator(CoordinatorSettings settings, Out& out);

  // `in` stands behind the head. An error means that the member broke the protocol.
  Status on_message(int member, MessageType type, ByteReader in, Time now);

  // Sends plans for everything that may run now. The caller calls it when its own data plane has
  // room, so that what becomes ready meanwhile is planned, and fused, together.
  void issue(Time now);
  bool has_ready() const { return !ready_.empty(); }
  // The time before which issue() would rather wait to fuse more (cycle_time); kNever if nothing is
  // held back.
  Time held_until() const;

  // Fails everything that waits and tells the members that the set has ended.
  void close(const Status& why);
  bool closed() const { return !closed_.ok(); }

  // Ends the operations for which a remote member's time is over. The caller calls it when it has
  // passed on all messages that have come: a coordinator that stood still must not call a member
  // missing whose announcement lies behind another member's withdrawal. Returns whether there were
  // withdrawals.
  bool end_withdrawn() { return !withdrawals_.empty() && take_withdrawals(); }

  // Ends the inquiries whose time is over; returns when the next one's is.
  Time tick(Time now);
  bool inquiring() const { return !inquiring_.empty(); }

  void set_fusion_threshold(int64_t bytes) { settings_.fusion_threshold = bytes; }
  void set_cycle_time(Duration time) { settings_.cycle_time = time; }
  // The path of groups on devices from the next plan on: kMeet is said once, and kHost follows.
  void set_device_path(Path path) { device_path_ = path; }
  const CoordinatorCounters& counters() const { return counters_; }
  size_t pending_count() const { return pending_; }
  size_t cached_count() const { return by_id_.size(); }

 private:
  // The state of the eager exchange between this coordinator and the other of two members, for one
  // use of a name.
  enum class EagerExchange : uint8_t {
    kNone,
    kBegun,  // the payload was sent for the use that is being collected
    // The use has ended without the other member. If that member has used the payload, its
    // announcement still comes.
    kRetracted,
    kAnswered,  // the announcement has come; only the confirmation of the retraction is under way
  };

  // A member that waits for a use asks the coordinator who is missing, and the coordinator asks the
  // missing members what they wait for. The answers go into texts and nowhere else: a rank may be
  // late, and what a rank waits for now says nothing about what that rank does next.
  struct Inquiry {
    uint32_t number = 0;
    // from then on, members that have not answered are said not to answer
    Time until{};
    std::vector<int> inquirers;     // the members that ask; empty once the inquiry has ended
    std::vector<int> unheard;       // members that have been asked
    std::vector<std::string> said;  // per member
  };

  // An instance stands for one name. The instance lives on between uses for its cache id; `arrived`
  // etc. describe the use that is being collected.
  struct Instance {
    std::string name;  // the key
    // the next one of those with the same name, in a ring; mostly itself
    Instance* sibling = nullptr;
    // The next three were agreed at the last use.
    uint32_t id = 0;
    Fingerprint print;
    std::string signature;
    // The following fields describe the use that is being collected.
    uint64_t use = 0;  // its number among all uses of all names
    bool pending = false;
    bool complete = false;
    bool any_full = false;
    int arrived_count = 0;
    int payload_count = 0;
    int32_t priority = 0;
    Time since{};
    int latest = -1;  // the last member that has arrived
    Time latest_at{};
    std::vector<uint8_t> arrived;
    std::vector<uint8_t> exclusive;  // see Submission
    Fingerprint current_print;
    std::string current_signature;
    Signature decoded;
    // members whose signature differs from current_signature
    std::vector<std::pair<int, std::string>> odd;
    std::vector<std::vector<int64_t>> variable;
    std::vector<Bytes> payload;  // payloads of the members that came before the last one
    // payload of the member that completes the use, while that payload is being looked at
    std::span<const std::byte> last;
    int last_member = -1;
    // How many failed uses each member has missed; a member gets the error of such a use when it
    // announces that use.
    std::vector<uint32_t> expired;
    Status expired_with;
    std::unique_ptr<Inquiry> inquiry;  // the last inquiry about this use
    EagerExchange exchange = EagerExchange::kNone;
    std::list<Instance*>::iterator place;  // in lru_
  };

  struct ReadyUse {  // a copy of what issue() needs, so that the instance can be used again at once
    Instance* instance;
    uint64_t bytes;
    size_t place;  // in the order of becoming ready
    bool fusible;
    bool outline;         // a member has joined and needs to be told what to take part in
    bool without_joined;  // a member has joined that has no part in this use
    bool taken = false;
  };

  struct Withdrawal {  // a member's time for an operation is over
    std::string name;  // the key
    // the use that the member had announced; the name may have been used again since
    uint64_t use;
    Duration waited;
  };

  // Kept so that steady state allocates nothing.
  struct Scratch {
    bool outline_needed = false;  // written and read within issue()
    Bytes plan;
    PlanGroup group;
    std::vector<const std::byte*> sources;
    Bytes result;
  };

  int size() const { return static_cast<int>(settings_.ranks.size()); }
  Status on_ready(int member, ByteReader& in, Time now);
  Status arrive(int member, const ReadyEntry& entry, Time now);
  Instance* find_or_create(std::string_view name);
  Status begin_use(Instance& instance, const ReadyEntry& entry, Time now);
  Status check_sizes(const Instance& instance, const ReadyEntry& entry) const;
  Status record(Instance& instance, int member, const ReadyEntry& entry, Time now);
  bool blocked_by_join(const Instance& instance, int* member) const;
  bool everyone_here(const Instance& instance) const;
  void examine(Instance& instance);
  bool examine_siblings(Instance& instance);
  void fail_siblings(const std::vector<Instance*>& uses);
  void link(Instance* instance);
  void unlink(Instance* instance);
  void on_join(Instance& instance, int member);
  Status ask_again(int member, uint32_t id);
  void finish_eager(Instance& instance);
  void make_ready(Instance& instance);
  // Ends the use; `excused` members do not owe an announcement, although they have not arrived.
  void fail(Instance& instance, const Status& why, std::span<const int> excused = {});
  void fail_mismatch(Instance& instance);
  void end_use(Instance& instance);
  uint32_t agree(Instance& instance);
  PlanEntry plan_entry(Instance& instance);
  static void fill_outline(const Signature& signature, PlanGroup& group);
  static bool can_fuse(const ReadyUse& a, const ReadyUse& b);
  void take_group(size_t first);
  void add_to_group(ReadyUse& use, PlanGroup& group);
  Path next_path();
  // coordinator_waiting.cc
  void on_withdraw(int member, ByteReader& in);
  bool take_withdrawals();
  void withdraw(Instance& instance, Duration waited);
  // coordinator_eager_exchange.cc
  bool may_exchange_eagerly(const Instance& instance, const ReadyEntry& entry) const;
  void take_payload(Instance& instance, int member, const ReadyEntry& entry);
  void begin_eager_exchange(Instance& instance, std::span<const std::byte> payload);
  bool answers_eager_exchange(Instance& instance, const ReadyEntry& entry);
  void retract(Instance& instance);
  Status on_retracted(ByteReader& in);
  // coordinator_inquiry.cc
  void on_query(int member, ByteReader& in, Time now);
  void inquire(Instance& instance, int member, Time now);
  void on_elsewhere(int member, ByteReader& in);
  void conclude(Instance& instance);
  void drop_inquiry(Instance& instance);
  void answer(int member, const Instance& instance, const std::vector<int64_t>& ranks,
              std::string_view text);
  std::vector<int64_t> missing_ranks(const Instance& instance) const;
  std::string whereabouts_text(const Instance& instance) const;
  std::string subject(const Instance& instance) const;
  std::string missing_text(const Instance& instance) const;
  void forget_excess();
  void send_to_all(const Bytes& message, bool urgent);

  CoordinatorSettings settings_;
  Out& out_;
  CoordinatorCounters counters_;
  Status closed_;
  // views into Instance::name
  std::unordered_map<std::string_view, std::unique_ptr<Instance>> by_name_;
  // the key is the name alone, the value one instance of each ring
  std::unordered_map<std::string_view, Instance*> siblings_;
  std::unordered_map<uint32_t, Instance*> by_id_;
  std::list<Instance*> lru_;  // most recently used first
  std::vector<ReadyUse> ready_;
  Time ready_since_ = kNever;
  uint64_t ready_bytes_ = 0;
  Path device_path_ = Path::kHost;
  uint32_t next_id_ = 1;
  uint64_t uses_ = 0;
  uint32_t next_inquiry_ = 1;
  std::vector<Instance*> inquiring_;  // instances whose inquiries have not ended
  std::vector<Withdrawal> withdrawals_;
  size_t pending_ = 0;
  std::vector<uint8_t> joined_;
  int joined_count_ = 0;
  int last_joined_ = -1;
  std::vector<int> owed_;           // per member: operations it was asked to send again
  std::vector<uint8_t> join_held_;  // members whose join came before the operations that they owe
  Bytes message_;
  Scratch scratch_;
};

// The text about an operation that waits although all have announced it.
inline constexpr const char* kNobodyMissing =
    "no rank is missing, but earlier operations are not done";

}  // namespace hvd::negotiation
