// SPDX-License-Identifier: Apache-2.0
// A message that makes no sense, whichever it is: who gets it breaks its context, and every other
// rank, also the one it came from, learns that in whatever it does next. Nobody waits for ever, and
// nobody takes it for a rank that left in order.
#include <deque>
#include <mutex>
#include "backend/host/host_comm.h"

#include "boundary.h"
#include "device/devices.h"
#include "rendezvous/open_store.h"
#include "unit/context/ranks.h"

namespace hvd::testing {
namespace {

constexpr int kSize = 3;

enum class Spoil { kHeadOnly, kNoHead, kOtherType };

// Passes everything on but for one message, counted from the first, which arrives spoilt.
class Spoiling final : public transport::Fabric, private transport::Sink {
 public:
  Spoiling(std::unique_ptr<transport::Fabric> inner, int nth, Spoil how)
      : inner_(std::move(inner)), nth_(nth), how_(how) {}

  const Topology& topology() const override { return inner_->topology(); }
  void send(int peer, std::span<const std::byte> bytes, bool urgent,
            std::span<const std::byte> payload) override {
    inner_->send(peer, bytes, urgent, payload);
  }
  bool payloads_apart() const noexcept override { return inner_->payloads_apart(); }
  bool has_unsent() const noexcept override { return inner_->has_unsent(); }
  bool poll(transport::Sink& sink) override {
    sink_ = &sink;
    return inner_->poll(*this);
  }
  void set_interest(bool interested) noexcept override { inner_->set_interest(interested); }
  bool park_begin() noexcept override { return inner_->park_begin(); }
  void park_end() noexcept override { inner_->park_end(); }
  int wait_fd() const noexcept override { return inner_->wait_fd(); }
  void interrupt() noexcept override { inner_->interrupt(); }
  void poke(int peer) noexcept override { inner_->poke(peer); }
  Result<std::unique_ptr<transport::Lane>> open_lane(int id, const std::vector<int>& ranks,
                                                     size_t bytes, Time deadline) override {
    return inner_->open_lane(id, ranks, bytes, deadline);
  }
  void close_lane(std::unique_ptr<transport::Lane> lane) noexcept override {
    inner_->close_lane(std::move(lane));
  }
  void give_up() noexcept override { inner_->give_up(); }
  void leave(Time deadline) noexcept override { inner_->leave(deadline); }

 private:
  void on_message(int from, std::span<const std::byte> bytes) override {
    if (++seen_ != nth_) return sink_->on_message(from, bytes);
    Bytes spoilt(bytes.begin(), bytes.end());
    if (how_ == Spoil::kNoHead) spoilt.resize(3);
    if (how_ == Spoil::kHeadOnly) spoilt.resize(negotiation::kHeadBytes);
    if (how_ == Spoil::kOtherType)
      spoilt[0] = static_cast<std::byte>(negotiation::MessageType::kResend);
    sink_->on_message(from, spoilt);
  }
  void on_peer_lost(int rank, const std::string& cause) override {
    sink_->on_peer_lost(rank, cause);
  }

  std::unique_ptr<transport::Fabric> inner_;
  transport::Sink* sink_ = nullptr;
  int nth_;
  int seen_ = 0;
  Spoil how_;
};

// A context as hvd_init makes it, around a fabric that spoils.
hvd_context* open_spoilt(const std::string& url, int rank, int nth, Spoil how) {
  const auto parsed = rendezvous::parse_url(url);
  rendezvous::StoreSettings at;
  at.rank = rank;
  at.size = kSize;
  at.deadline = now() + std::chrono::seconds(20);
  const auto store = rendezvous::open_store(parsed.value(), at);
  transport::FabricOptions options;
  options.rank = rank;
  options.size = kSize;
  options.in_process = true;
  options.deadline = at.deadline;
  auto fabric = transport::open_fabric(*store.value(), options);
  EXPECT_TRUE(fabric.ok()) << fabric.status().message();
  engine::EngineParts parts;
  parts.options.stall_check_disable = true;
  parts.log = std::make_shared<Logger>(Logger::Sink(), LogLevel::kError);
  parts.faults = std::make_shared<FaultRecord>("");
  parts.fabric = std::make_unique<Spoiling>(std::move(fabric).value(), nth, how);
  transport::Fabric* const lanes = parts.fabric.get();
  parts.devices = std::make_unique<device::Devices>([lanes] { lanes->interrupt(); });
  auto context = std::make_unique<hvd_context>();
  context->engine = std::make_shared<engine::Engine>(std::move(parts));
  const Status started = context->engine->start(
      std::make_unique<backend::host::HostCommFactory>(*lanes, collectives::Settings()),
      at.deadline);
  EXPECT_TRUE(started.ok()) << started.message();
  context->world = {context->engine->world(), true};
  context->timeline = std::make_shared<observe::Timeline>(
      context->engine, std::make_shared<Logger>(), observe::ClockOffset{});
  return context.release();
}

Failure create_pair(Job& job, hvd_process_set** pair) {
  const int32_t ranks[] = {1, 2};
  hvd_error error = HVD_ERROR_INIT;
  return failure_of(hvd_process_set_create(job.get(), ranks, 2, pair, &error), error);
}

Failure join(Job& job) {
  hvd_error error = HVD_ERROR_INIT;
  hvd_handle* handle = nullptr;
  const Failure failure = failure_of(hvd_join_async(job.get(), nullptr, &handle, &error), error);
  return failure.status == HVD_OK ? Job::wait(handle) : failure;
}

// Every phase of a job's life. The first failure, or success.
Failure live(Job& job) {
  hvd_process_set* pair = nullptr;
  // Where a wait does not end, which the test is about, the library goes on using them.
  static std::deque<std::vector<float>> kept;
  static std::mutex mutex;
  std::unique_lock<std::mutex> lock(mutex);
  std::vector<float>&small = kept.emplace_back(1, 1.0f), &large = kept.emplace_back(30'000, 1.0f);
  lock.unlock();
  Failure failure;
  const auto goes_on = [&failure](Failure next) {
    failure = std::move(next);
    return failure.status == HVD_OK;
  };
  const bool alive = goes_on(job.sum(small, "small")) && goes_on(job.sum(small, "small")) &&
                     goes_on(create_pair(job, &pair)) &&
                     (job.rank() == 0 || goes_on(job.sum(large, "large", pair))) &&
                     goes_on(job.sum(large, "large")) && goes_on(job.barrier("meet")) &&
                     goes_on(join(job));
  hvd_error error = HVD_ERROR_INIT;
  if (alive && goes_on(failure_of(hvd_process_set_destroy(pair, &error), error))) {
    pair = nullptr;
    goes_on(job.barrier("end"));
  }
  hvd_process_set_free(pair);
  return failure;
}

struct Outcome {
  std::vector<Failure> failures = std::vector<Failure>(kSize);
  bool spoilt = false;
};

Outcome play(int victim, int nth, Spoil how) {
  Outcome outcome;
  const std::string url = fresh_url();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kSize; ++rank) {
    threads.emplace_back([&, rank] {
      Job job;
      job.adopt(open_spoilt(url, rank, rank == victim ? nth : 0, how), rank, kSize);
      outcome.failures[static_cast<size_t>(rank)] = live(job);
      EXPECT_EQ(job.close().status, HVD_OK);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Failure& failure : outcome.failures)
    outcome.spoilt = outcome.spoilt || failure.status != HVD_OK;
  return outcome;
}

TEST(Broken, AnyMessageThatMakesNoSenseReachesEveryRank) {
  int ends = 0;
  for (int victim = 0; victim < 2; ++victim) {  // the coordinator of the world, and that of a set
    for (const Spoil how : {Spoil::kHeadOnly, Spoil::kNoHead, Spoil::kOtherType}) {
      for (int nth = 1; nth <= 60; ++nth) {
        SCOPED_TRACE("message " + std::to_string(nth) + " to rank " + std::to_string(victim) +
                     ", way " + std::to_string(static_cast<int>(how)));
        const Outcome outcome = play(victim, nth, how);
        if (!outcome.spoilt) continue;
        ++ends;
        int said = 0;
        for (const Failure& failure : outcome.failures) {
          // A rank that was through with everything has nothing left that could fail.
          EXPECT_TRUE(failure.status == HVD_ERR_INTERNAL || failure.status == HVD_OK)
              << failure.status << " " << failure.message;
          said += failure.message.find(" sent") != std::string::npos ? 1 : 0;
        }
        EXPECT_GE(said, 1);
        if (HasFailure()) return;
      }
    }
  }
  std::printf("%d contexts broken by a message\n", ends);
  EXPECT_GT(ends, 50);
}

}  // namespace
}  // namespace hvd::testing
