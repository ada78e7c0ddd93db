// SPDX-License-Identifier: Apache-2.0
#include "world.h"

#include <cstring>

namespace hvd::model {

using engine::MessageHead;
using engine::Operation;
using engine::ProcessSet;

// Writes down the work and finishes it at the third look, so that the coordinator's queue fills.
class World::TraceComm final : public backend::Comm {
 public:
  explicit TraceComm(Trace& trace) : trace_(trace) {}
  int score(const backend::Work&) const override { return 0; }
  Status start(const backend::Work& work) override {
    std::string text = std::to_string(static_cast<int>(work.kind)) + "/" + dtype_name(work.dtype) + "/" +
                       reduce_op_name(work.op) + "/" + std::to_string(work.root_member);
    for (const backend::Item& item : work.items) {
      const bool same_everywhere = work.kind == backend::Kind::kAllreduce || work.kind == backend::Kind::kBroadcast;
      text += " " + (same_everywhere ? std::to_string(item.count) : "-");
    }
    trace_.push_back(text);
    looks_ = 0;
    return {};
  }
  backend::Progress poll() override { return ++looks_ < 3 ? backend::Progress::kWaiting : backend::Progress::kDone; }
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
      if (outcome.ended) world_.fault_ = operation->subject() + " ended twice on rank " + std::to_string(rank_);
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
  void on_set_closed(const ProcessSet&, const Status&) override {}
  void warn(const std::string&) override {}
  std::string describe(int rank) const override { return "rank " + std::to_string(rank); }
  engine::SetEngine* other_holding(const engine::SetEngine&, std::string_view) override { return nullptr; }  // one set only
  engine::DevicePlane::Around device_around(const engine::ProcessSet&) override { return {}; }
  engine::SetEngine* open_set(uint32_t) override { return nullptr; }
  Time time() const override { return world_.time_; }
  Options& options() override { return world_.options_; }
  Metrics& metrics() override { return world_.metrics_; }

 private:
  World& world_;
  int rank_;
};

namespace {

// Sums floats, which is all the model's eager operations do.
void reduce(const engine::Signature&, std::span<const int>, std::span<const std::byte* const> sources,
            std::span<std::byte> out) {
  float sum = 0;
  for (const std::byte* source : sources) {
    float value = 0;
    if (source != nullptr) std::memcpy(&value, source, sizeof value);
    sum += value;
  }
  std::memcpy(out.data(), &sum, sizeof sum);
}

}  // namespace

World::World(int size, const Options& options, bool offers) : options_(options) {
  for (int rank = 0; rank < size; ++rank) {
    ranks_.push_back(std::make_unique<Rank>());
    Rank& here = *ranks_.back();
    here.host = std::make_unique<Host>(*this, rank);
    auto set = std::make_shared<ProcessSet>();
    set->id.store(0);
    set->me = rank;
    set->eager.offers = offers && size == 2;
    for (int r = 0; r < size; ++r) set->ranks.push_back(r);
    here.engine =
        std::make_unique<engine::SetEngine>(*here.host, set, std::make_unique<TraceComm>(here.trace), nullptr, reduce);
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
  operation.name = ask.name;
  operation.op = ask.op;
  operation.root = ask.root;
  operation.prescale = ask.prescale;
  operation.priority = ask.priority;
  operation.submitted = time_;
  operation.variable = ask.variable;
  if (ask.timeout > Duration::zero()) operation.deadline = time_ + ask.timeout;
  const bool has_tensor = ask.kind != engine::OpKind::kBarrier && ask.kind != engine::OpKind::kJoin;
  if (has_tensor) {
    engine::OpTensor tensor;
    tensor.in = &here.results.back().input;
    tensor.out = &here.results.back().output;
    tensor.dtype = ask.dtype;
    tensor.dims = ask.dims;
    operation.tensors.push_back(tensor);
  }
  engine::SignatureWriter writer(operation.signature, ask.kind, ask.op, ask.root, ask.prescale, 1.0, operation.tensors.size());
  for (const engine::OpTensor& tensor : operation.tensors) writer.tensor(tensor.dtype, tensor.dims);
  operation.print = fingerprint(operation.signature, fingerprint(as_byte_span(operation.name)).low);
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
  here.engine->submit(&operation);
  here.engine->flush();
  apply_breaks();
  return index;
}

void World::hand_over(int from, int to, const Bytes& message) {
  if (at(to).gone) return;
  ByteReader in(message);
  MessageHead head;
  if (engine::get_head(in, &head)) at(to).engine->on_message(from, head.type, in);
  apply_breaks();
}

bool World::deliver(int from, int to) {
  const auto link = links_.find({from, to});
  if (link == links_.end() || link->second.empty()) return false;
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

bool World::progress(int rank) { return !at(rank).gone && at(rank).engine->progress(time_); }

void World::advance(Duration time) {
  time_ += time;
  for (const auto& rank : ranks_) {
    if (!rank->gone) rank->engine->tick(time_);
  }
  apply_breaks();
}

void World::bye(int rank) {
  at(rank).engine->bye();
  at(rank).engine->fail_all(Status(Code::kShutDown, "this rank has shut down"), true);
  at(rank).gone = true;
}

void World::lose(int rank) {
  at(rank).gone = true;
  for (int other = 0; other < size(); ++other) {
    at(other).host->break_context(Status(Code::kPeerLost, "rank " + std::to_string(rank) + " was killed").with_rank(rank));
  }
  apply_breaks();
}

// One broken context breaks the job, as the abort message does among processes.
void World::apply_breaks() {
  Status why;
  for (const auto& rank : ranks_) {
    if (!rank->breaking.ok() && why.ok()) why = rank->breaking;
  }
  if (why.ok()) return;
  broken_ = true;
  broken_with_ = why;
  for (const auto& rank : ranks_) {
    rank->breaking = {};
    rank->engine->fail_all(why, false);
  }
}

bool World::messages_waiting() const {
  for (const auto& [link, queue] : links_) {
    if (!queue.empty()) return true;
  }
  return false;
}

void World::settle() {
  // Up to 12 s pass, in steps shorter than the second that a coordinator has for an answer.
  for (int round = 0; round < 20; ++round) {
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
    advance(std::chrono::milliseconds(600));
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
