// SPDX-License-Identifier: Apache-2.0
#include "world.h"

#include <algorithm>
#include <cstring>

namespace hvd::model {

using engine::Operation;
using engine::ProcessSet;
using negotiation::MessageHead;

// Writes down the work and finishes it at the third look, so that the coordinator's queue fills.
class World::TraceComm final : public backend::Comm {
 public:
  explicit TraceComm(Trace& trace) : trace_(trace) {}
  int score(const backend::Work&) const override { return 0; }
  Status start(const backend::Work& work) override {
    std::string text = std::to_string(static_cast<int>(work.kind)) + "/" + dtype_name(work.dtype) +
                       "/" + reduce_op_name(work.op) + "/" + std::to_string(work.root_member);
    for (const backend::Item& item : work.items) {
      const bool same_everywhere =
          work.kind == backend::Kind::kAllreduce || work.kind == backend::Kind::kBroadcast;
      text += " " + (same_everywhere ? std::to_string(item.count) : "-");
    }
    trace_.push_back(text);
    looks_ = 0;
    return {};
  }
  backend::Progress poll() override {
    return ++looks_ < 3 ? backend::Progress::kWaiting : backend::Progress::kDone;
  }
  int waiting_for() const override { return -1; }
  void abort() noexcept override {}

 private:
  Trace& trace_;
  int looks_ = 0;
};

class World::Host final : public engine::SetHost {
 public:
  Host(World& world, int rank) : world_(world), rank_(rank) {}
  void send(int rank, const Bytes& message, bool, std::span<const std::byte> payload) override {
    Bytes& whole = world_.links_[{rank_, rank}].emplace_back(message);
    whole.insert(whole.end(), payload.begin(), payload.end());
  }
  void complete(Operation* operation, Status status) override {
    for (Outcome& outcome : world_.at(rank_).results) {
      if (outcome.operation != operation) continue;
      if (outcome.ended)
        world_.fault_ = operation->subject() + " ended twice on rank " + std::to_string(rank_);
      outcome.ended = true;
      outcome.status = std::move(status);
      return;
    }
    world_.fault_ = "an unknown operation ended on rank " + std::to_string(rank_);
  }
  void on_set_operation(Operation*) override {}
  void break_context(const Status& why) override {
    if (world_.at(rank_).breaking.ok()) world_.at(rank_).breaking = why;
  }
  void end_stalled(const Status& why) override {
    if (!world_.at(rank_).breaking.ok()) return;
    break_context(why);
    world_.at(rank_).stalled = true;
  }
  void on_set_closed(const ProcessSet&, const Status&) override {}
  void warn(const std::string& text) override { world_.at(rank_).warnings.push_back(text); }
  std::string describe(int rank) const override { return "rank " + std::to_string(rank); }
  std::string whereabouts(const engine::SetEngine& asked, std::string_view key) override {
    std::string text;
    const Operation* waits = nullptr;
    for (const auto& [number, set] : world_.at(rank_).engines) {
      const Operation* other = set->wait_of(key);
      if (other == nullptr || (waits != nullptr && !engine::tells_more(*other, *waits, key)))
        continue;
      waits = other;
      text = (other->awaited.load() ? "waits in " : "has begun ") + other->subject() +
             (set.get() == &asked ? "" : " of process set " + std::to_string(number));
    }
    return text;
  }
  void answer_by(Time) override {}
  engine::DevicePlane::Around device_around(const engine::ProcessSet&) override { return {}; }
  Time time() const override { return world_.time_; }
  Options& options() override { return world_.options_; }
  Metrics& metrics() override { return world_.metrics_; }
  engine::FlightRecorder* recorder() override { return nullptr; }
  engine::Observations& observations() override { return observations_; }

 private:
  World& world_;
  int rank_;
  Histograms histograms_;
  engine::Observations observations_{world_.metrics_, histograms_};
};

World::World(int size, const Options& options, bool exchange,
             const std::vector<std::vector<int>>& sets)
    : options_(options) {
  std::vector<int> all;
  for (int rank = 0; rank < size; ++rank) {
    ranks_.push_back(std::make_unique<Rank>());
    ranks_.back()->host = std::make_unique<Host>(*this, rank);
    all.push_back(rank);
  }
  open_set(0, all, exchange);
  for (const std::vector<int>& ranks : sets)
    open_set(static_cast<uint32_t>(ranks_[0]->traces.size()), ranks, exchange);
}

void World::open_set(uint32_t number, const std::vector<int>& ranks, bool exchange) {
  for (int rank = 0; rank < size(); ++rank) {
    Rank& here = at(rank);
    Trace& trace = here.traces[number];
    const auto me = std::find(ranks.begin(), ranks.end(), rank);
    if (me == ranks.end()) continue;
    auto set = std::make_shared<ProcessSet>();
    set->id.store(static_cast<int32_t>(number));
    set->serial = number;
    set->me = static_cast<int>(me - ranks.begin());
    set->eager.exchange = exchange && ranks.size() == 2;
    set->ranks = ranks;
    here.engines[number] = std::make_unique<engine::SetEngine>(
        *here.host, set, std::make_unique<TraceComm>(trace), nullptr);
  }
}

World::~World() = default;

size_t World::submit(int rank, const Ask& ask) {
  Rank& here = at(rank);
  const size_t index = here.results.size();
  here.kept.push_back(std::make_unique<Operation>());
  Operation& operation = *here.kept.back();
  here.results.push_back({&operation, false, {}, static_cast<float>(rank + 1), 0});
  operation.kind = ask.kind;
  operation.op = ask.op;
  operation.root = ask.root;
  operation.prescale = ask.prescale;
  operation.priority = ask.priority;
  operation.submitted = time_;
  operation.variable = ask.variable;
  if (ask.timeout > Duration::zero()) operation.deadline = time_ + ask.timeout;
  const bool has_tensor = ask.kind != OpKind::kBarrier && ask.kind != OpKind::kJoin;
  if (has_tensor) {
    engine::OpTensor tensor;
    tensor.in = &here.results.back().input;
    tensor.out = &here.results.back().output;
    tensor.dtype = ask.dtype;
    tensor.dims = ask.dims;
    operation.tensors.push_back(tensor);
  }
  operation.set_name(ask.name);
  negotiation::SignatureWriter writer(operation.signature, ask.kind, ask.op, ask.root, ask.prescale,
                                      1.0, operation.tensors.size());
  for (const engine::OpTensor& tensor : operation.tensors) writer.tensor(tensor.dtype, tensor.dims);
  operation.print = fingerprint(operation.signature, fingerprint(as_byte_span(operation.key)).low);
  // Results move when the vector grows, so eager payloads are owned by the operation.
  if (ask.eager) {
    operation.eager = true;
    operation.gathered_payload.resize(sizeof(float));
    const auto value = static_cast<float>(rank + 1);
    std::memcpy(operation.gathered_payload.data(), &value, sizeof value);
    operation.payload = operation.gathered_payload;
    operation.owned.emplace_back(std::aligned_alloc(64, 64));
    operation.tensors[0].out = operation.owned.back().get();
    here.results.back().eager = true;
  }
  operation.awaited.store(ask.awaited);
  engine::SetEngine& engine = *here.engines.at(ask.set);
  engine.submit(&operation);
  engine.flush();
  apply_breaks();
  return index;
}

void World::hand_over(int from, int to, const Bytes& message) {
  if (at(to).gone) return;
  ByteReader in(message);
  MessageHead head;
  if (negotiation::get_head(in, &head))
    at(to).engines.at(head.set)->on_message(from, head.type, in);
  apply_breaks();
}

bool World::deliver(int from, int to) {
  const auto link = links_.find({from, to});
  if (link == links_.end() || link->second.empty() || at(to).frozen) return false;
  const Bytes message = std::move(link->second.front());
  link->second.pop_front();
  hand_over(from, to, message);
  return true;
}

bool World::deliver_twice(int from, int to) {
  const auto link = links_.find({from, to});
  if (link == links_.end() || link->second.empty()) return false;
  link->second.push_front(link->second.front());
  return deliver(from, to) && deliver(from, to);
}

bool World::progress(int rank) {
  if (at(rank).gone || at(rank).frozen) return false;
  bool moved = false;
  for (const auto& [number, engine] : at(rank).engines) {
    moved = engine->progress(time_) || moved;
    moved = engine->end_withdrawn() || moved;
  }
  return moved;
}

void World::advance(Duration time) {
  time_ += time;
  for (const auto& rank : ranks_) {
    if (rank->gone || rank->frozen) continue;
    for (const auto& [number, engine] : rank->engines) engine->tick(time_);
  }
  apply_breaks();
}

void World::freeze(int rank, bool frozen) { at(rank).frozen = frozen; }

void World::bye(int rank) {
  for (const auto& [number, engine] : at(rank).engines) {
    engine->bye();
    engine->fail_all(Status(Code::kShutDown, "this rank has shut down"), true);
  }
  at(rank).gone = true;
}

void World::lose(int rank) {
  at(rank).gone = true;
  for (int other = 0; other < size(); ++other) {
    at(other).host->break_context(
        Status(Code::kPeerLost, "rank " + std::to_string(rank) + " was killed").with_rank(rank));
  }
  apply_breaks();
}

// One broken context breaks the job, as the abort message does among processes.
void World::apply_breaks() {
  Status why;
  bool stalled = false;
  for (const auto& rank : ranks_) {
    if (rank->breaking.ok() || !why.ok()) continue;
    why = rank->breaking;
    stalled = rank->stalled;
  }
  if (why.ok()) return;
  broken_ = true;
  broken_with_ = why;
  for (const auto& rank : ranks_) {
    rank->breaking = {};
    for (const auto& [number, engine] : rank->engines) {
      if (stalled) engine->fail_stalled();
      engine->fail_all(why, false);
    }
  }
}

bool World::messages_waiting() const {
  for (const auto& [link, queue] : links_) {
    if (!queue.empty()) return true;
  }
  return false;
}

void World::settle(Duration step) {
  for (Duration passed{0}; passed < std::chrono::seconds(12); passed += step) {
    for (bool moved = true; moved;) {
      moved = false;
      for (int from = 0; from < size(); ++from) {
        for (int to = 0; to < size(); ++to) moved = deliver(from, to) || moved;
      }
      for (int look = 0; look < 4; ++look) {
        for (int rank = 0; rank < size(); ++rank) moved = progress(rank) || moved;
      }
    }
    if (all_ended()) return;
    advance(step);
  }
}

bool World::all_ended() const {
  for (const auto& rank : ranks_) {
    for (const Outcome& outcome : rank->results) {
      if (!outcome.ended) return false;
    }
  }
  return true;
}

}  // namespace hvd::model
