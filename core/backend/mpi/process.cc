// SPDX-License-Identifier: Apache-2.0
#include "backend/mpi/process.h"

#include <sched.h>

#include <chrono>
#include <cstdlib>

namespace hvd::backend::mpi {
namespace {

// Whether the environment has the traces of a launcher of Open MPI: mpirun, and srun or another
// PMIx server.
bool launched_by_mpi() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

const char* level_name(int level) {
  constexpr const char* kNames[] = {"MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED",
                                    "MPI_THREAD_SERIALIZED", "MPI_THREAD_MULTIPLE"};
  return level >= 0 && level <= kThreadMultiple ? kNames[level] : "no thread level";
}

// Tests without result before the thread naps between them; a nap is short beside a collective that
// takes so long.
constexpr int kEagerTests = 2000;
constexpr auto kNap = std::chrono::microseconds(50);

}  // namespace

Process& Process::get() {
  // outlives the destructors of statics: finalize() runs among them
  static Process* process = new Process;
  return *process;
}

std::string Process::start(const plugin::Settings& settings, bool needs_launcher) {
  const std::lock_guard lock(start_mutex_);
  if (level_ >= 0) return {};
  std::string problem;
  api_ = load_api(&problem);
  if (api_ == nullptr) return problem;
  return initialize(settings, needs_launcher);
}

std::string Process::initialize(const plugin::Settings& settings, bool needs_launcher) {
  int initialized = 0;
  int finalized = 0;
  api_->Initialized(&initialized);
  api_->Finalized(&finalized);
  if (finalized != 0) return "MPI has been finalised in this process and can not be started again";
  if (initialized == 0 && needs_launcher && !launched_by_mpi()) {
    return "this process was not started by an MPI launcher: OMPI_COMM_WORLD_SIZE, PMIX_RANK and "
           "PMI_RANK are not set";
  }
  int level = kThreadSingle;
  int code = kSuccess;
  if (initialized != 0) {
    code = api_->Query_thread(&level);
    one_thread_ = settings.one_thread != 0 || level < kThreadMultiple;
    if (one_thread_) call_from_one_thread();
  } else {
    // The thread that starts MPI is the one that may call it where threads are restricted.
    one_thread_ = settings.one_thread != 0;
    if (one_thread_) call_from_one_thread();
    const int wanted = one_thread_ ? kThreadSingle : kThreadMultiple;
    run([&] { code = api_->Init_thread(nullptr, nullptr, wanted, &level); });
    if (code == kSuccess) {
      ours_ = true;
      if (level < kThreadMultiple && !one_thread_) {
        one_thread_ = true;
        call_from_one_thread();
      }
      api_->Comm_set_errhandler(api_->comm_world, api_->errors);
    }
  }
  if (code != kSuccess) return "MPI does not start: " + error_text(*api_, code);
  level_ = level;
  finalize_at_exit();
  return {};
}

std::string Process::thread_warning() const {
  if (ours_ || level_ >= kThreadMultiple) return {};
  return std::string("MPI was initialised by the program with ") + level_name(level_) +
         "; calls of this process outside Horovod must not overlap with Horovod's";
}

void Process::run(const std::function<void()>& call) {
  if (!one_thread_ || std::this_thread::get_id() == thread_.get_id()) return call();
  std::unique_lock lock(mutex_);
  bool done = false;
  std::condition_variable finished;
  calls_.emplace_back([&] {
    call();
    const std::lock_guard inner(mutex_);
    done = true;
    finished.notify_one();
  });
  news_.notify_one();
  finished.wait(lock, [&] { return done; });
}

void Process::watch(const void* owner, std::function<bool()> test) {
  const std::lock_guard lock(mutex_);
  tests_.push_back({owner, std::move(test)});
  news_.notify_one();
}

// Calls run between tests, never during one.
void Process::unwatch(const void* owner) {
  run([this, owner] {
    const std::lock_guard lock(mutex_);
    std::erase_if(tests_, [owner](const Test& test) { return test.owner == owner; });
  });
}

void Process::call_from_one_thread() {
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
}

void Process::work() {
  int fruitless = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    if (tests_.empty()) {
      fruitless = 0;
      news_.wait(lock, [this] { return ending_ || !calls_.empty() || !tests_.empty(); });
    } else if (fruitless > kEagerTests) {
      news_.wait_for(lock, kNap);
    }
    if (!calls_.empty()) {
      const std::function<void()> call = std::move(calls_.front());
      calls_.pop_front();
      lock.unlock();
      call();
      lock.lock();
      continue;
    }
    if (ending_) return;
    std::vector<Test> tests;
    tests.swap(tests_);
    lock.unlock();
    bool any = false;
    std::erase_if(tests, [&](const Test& test) {
      const bool done = test.run();
      any = any || done;
      return done;
    });
    if (!any && ++fruitless < kEagerTests) sched_yield();
    if (any) fruitless = 0;
    lock.lock();
    tests_.insert(tests_.end(), tests.begin(), tests.end());
  }
}

// std::atexit does not tell how the process ends.
void Process::finalize_at_exit() {
  ::on_exit([](int status, void*) { get().finalize(status); }, nullptr);
}

// At the end of the process: without it mpirun takes the exit for a crash. After a failure it would
// wait for ranks that are gone, or, if it is this process that has failed, for ranks that wait for
// it; the launcher is right to complain, and ends the job.
void Process::finalize(int exit_code) {
  if (ours_ && !tainted_ && exit_code == 0) {
    run([this] {
      int finalized = 0;
      api_->Finalized(&finalized);
      if (finalized == 0) api_->Finalize();
    });
  }
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    news_.notify_one();
  }
  thread_.join();
}

}  // namespace hvd::backend::mpi
