// SPDX-License-Identifier: Apache-2.0
// A job without processes, threads, clock or network: a SetEngine per rank and process set, message
// queues between them, time that the test moves, and a data plane that only writes down what it was
// told to do. Whatever happens next is the test's choice.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/set_engine.h"

namespace hvd::model {

// What one rank's data plane was asked to run, as text: equal on all ranks, in the same order, or
// the job would hang.
using Trace = std::vector<std::string>;

class World {
 public:
  // `exchange`: whether the coordinator of two ranks sends its payloads ahead to the other one.
  // `sets`: the ranks of the process sets besides that of all ranks, which is set 0.
  World(int size, const Options& options, bool exchange,
        const std::vector<std::vector<int>>& sets = {});

  int size() const { return static_cast<int>(ranks_.size()); }
  bool broken() const { return broken_; }
  const Status& broken_with() const { return broken_with_; }
  bool gone(int rank) const { return at(rank).gone; }

  // Makes an operation of this rank; submit() hands it to the engine.
  struct Ask {
    OpKind kind = OpKind::kAllreduce;
    std::string name;
    uint32_t set = 0;
    DType dtype = DType::kFloat32;
    std::vector<int64_t> dims{1};
    ReduceOp op = ReduceOp::kSum;
    int root = 0;
    double prescale = 1.0;
    int priority = 0;
    std::vector<int64_t> variable{};
    bool eager = false;
    Duration timeout{0};
    bool awaited = false;  // a caller waits for it
  };
  // Index of the operation among those of the rank.
  size_t submit(int rank, const Ask& ask);
  bool ended(int rank, size_t index) const { return at(rank).results[index].ended; }
  const Status& result(int rank, size_t index) const { return at(rank).results[index].status; }
  std::string subject(int rank, size_t index) const {
    return at(rank).results[index].operation->subject();
  }
  size_t submitted(int rank) const { return at(rank).results.size(); }
  int last_joined(int rank, size_t index) const {
    return at(rank).results[index].operation->last_joined;
  }
  bool eager(int rank, size_t index) const { return at(rank).results[index].eager; }
  float eager_result(int rank, size_t index) const {
    return *static_cast<const float*>(at(rank).results[index].operation->tensors[0].out);
  }

  // Choices. Each returns false if there was nothing to do.
  bool deliver(int from, int to);
  bool deliver_twice(int from, int to);  // a fault no transport may commit
  bool progress(int rank);
  void advance(Duration time);
  void bye(int rank);
  void freeze(int rank, bool frozen);  // what is sent to it waits
  void lose(int rank);
  bool messages_waiting() const;
  bool all_ended() const;
  // Delivers and runs everything until nothing moves, with up to 12 s passing; in steps shorter
  // than the second that a coordinator has for an answer.
  void settle(Duration step = std::chrono::milliseconds(600));

  const Trace& trace(int rank, uint32_t set = 0) const { return at(rank).traces.at(set); }
  // The stall reports of this rank.
  const std::vector<std::string>& warnings(int rank) const { return at(rank).warnings; }
  // Empty, or what went wrong: an operation that ended twice.
  const std::string& fault() const { return fault_; }

 private:
  struct Rank;
  class Host;
  class TraceComm;
  struct Outcome {
    engine::Operation* operation = nullptr;
    bool ended = false;
    Status status;
    float input = 0;
    float output = 0;
    bool eager = false;
  };
  struct Rank {
    std::unique_ptr<Host> host;
    std::map<uint32_t, std::unique_ptr<engine::SetEngine>> engines;  // by the set's number
    std::vector<Outcome> results;
    std::vector<std::unique_ptr<engine::Operation>> kept;
    std::map<uint32_t, Trace> traces;  // by the set's number
    std::vector<std::string> warnings;
    bool gone = false;
    bool frozen = false;
    bool stalled = false;  // what `breaking` is about
    Status breaking;
  };
  Rank& at(int rank) { return *ranks_[static_cast<size_t>(rank)]; }
  const Rank& at(int rank) const { return *ranks_[static_cast<size_t>(rank)]; }
  void open_set(uint32_t number, const std::vector<int>& ranks, bool exchange);
  void hand_over(int from, int to, const Bytes& message);
  void apply_breaks();

  Options options_;
  Metrics metrics_;
  Time time_{};
  bool broken_ = false;
  Status broken_with_;
  std::string fault_;
  std::map<std::pair<int, int>, std::deque<Bytes>> links_;
  std::vector<std::unique_ptr<Rank>> ranks_;

 public:
  ~World();
};

}  // namespace hvd::model
