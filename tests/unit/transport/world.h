// SPDX-License-Identifier: Apache-2.0
// What the tests of this layer share: a store, a sink that records, ranks as threads and ranks as
// processes.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>

#include "transport/fabric.h"

namespace hvd::transport::testing {

using namespace std::chrono_literals;

// A folder of files, one per key: works between threads and between processes.
class FolderStore : public rendezvous::Store {
 public:
  explicit FolderStore(std::string folder) : folder_(std::move(folder)) {}

  Status set(const std::string& key, const std::string& value) override {
    const std::string temporary = path(key) + ".new" + std::to_string(::gettid());
    std::ofstream(temporary) << value;
    std::filesystem::rename(temporary, path(key));
    return {};
  }
  Result<std::string> get(const std::string& key, Time deadline) override {
    while (true) {
      std::ifstream file(path(key));
      if (file) return std::string(std::istreambuf_iterator<char>(file), {});
      if (now() >= deadline) return Status(Code::kTimeout, "key \"" + key + "\" did not appear");
      std::this_thread::sleep_for(1ms);
    }
  }
  Result<int64_t> add(const std::string& key, int64_t delta) override {
    const int lock = ::open((folder_ + "/lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    ::flock(lock, LOCK_EX);
    int64_t sum = 0;
    std::ifstream(path(key)) >> sum;
    sum += delta;
    std::ofstream(path(key)) << sum;
    ::close(lock);
    return sum;
  }
  Status remove(const std::string& key) override {
    std::filesystem::remove(path(key));
    return {};
  }
  // What a rendezvous left behind, besides the arrival counters that must stay.
  std::set<std::string> keys() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      names.insert(entry.path().filename());
    names.erase("lock");
    return names;
  }

 private:
  std::string path(std::string key) const {
    for (char& letter : key) letter = letter == '/' ? '.' : letter;
    return folder_ + "/" + key;
  }
  std::string folder_;
};

class Folder {
 public:
  Folder() {
    std::string pattern = std::filesystem::temp_directory_path() / "hvd-test-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct Recorder final : Sink {
  std::vector<std::pair<int, std::string>> messages;
  std::vector<std::pair<int, std::string>> losses;

  void on_message(int from, std::span<const std::byte> bytes) override {
    messages.emplace_back(from,
                          std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  void on_peer_lost(int rank, const std::string& cause) override {
    losses.emplace_back(rank, cause);
  }
};

inline std::span<const std::byte> bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// Polls without sleeping until `done`; false after 10 s.
inline bool poll_until(Fabric& fabric, Sink& sink, const std::function<bool()>& done,
                       Duration limit = 10s) {
  const Time end = now() + limit;
  while (!done()) {
    if (now() > end) return false;
    if (!fabric.poll(sink)) std::this_thread::yield();
  }
  return true;
}

// As an engine does: sleeps when there is nothing to do.
bool sleep_until(Fabric& fabric, Sink& sink, const std::function<bool()>& done,
                 Duration limit = 10s);

// Lets the fabric be driven by a thread of its own, as an engine does, while the test's thread
// opens a lane.
class Driver {
 public:
  explicit Driver(Fabric& fabric)
      : fabric_(fabric), thread_([this] {
          while (!stop_) sleep_until(fabric_, sink, [this] { return stop_.load(); }, 5s);
        }) {}
  ~Driver() { stop(); }
  void stop() {
    if (!thread_.joinable()) return;
    stop_ = true;
    fabric_.interrupt();
    thread_.join();
  }
  Recorder sink;  // after stop()

 private:
  Fabric& fabric_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

inline Result<std::unique_ptr<Lane>> open_driven(Fabric& fabric, int id,
                                                 const std::vector<int>& ranks,
                                                 Duration limit = 10s) {
  Driver driver(fabric);
  return fabric.open_lane(id, ranks, 4096, now() + limit);
}

using RankBody = std::function<void(Fabric&, int rank)>;
struct WorldOptions {
  bool in_process = true;
  std::vector<std::string> hosts;  // per rank; empty: all on one
  bool leave = true;               // in order, at the end of the body
  bool data_mac = false;
};

inline FabricOptions options_for(const WorldOptions& world, int rank, int size) {
  FabricOptions options;
  options.rank = rank;
  options.size = size;
  options.in_process = world.in_process;
  options.data_mac = world.data_mac;
  options.deadline = now() + 20s;
  if (!world.hosts.empty()) options.host = world.hosts[static_cast<size_t>(rank)];
  return options;
}

inline std::unique_ptr<Fabric> open_or_fail(rendezvous::Store& store,
                                            const FabricOptions& options) {
  Result<std::unique_ptr<Fabric>> opened = open_fabric(store, options);
  if (opened.ok()) return std::move(opened).value();
  ADD_FAILURE() << "rank " << options.rank << ": " << opened.status().message();
  return nullptr;
}

inline void run_as_threads(int size, const WorldOptions& world, const RankBody& body) {
  Folder folder;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      FolderStore store(folder.path());
      auto fabric = open_or_fail(store, options_for(world, rank, size));
      if (fabric == nullptr) return;
      body(*fabric, rank);
      if (world.leave) fabric->leave(now() + 5s);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Runs the body in a forked process, which ends with the body's value.
inline pid_t spawn(const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());
  return pid;
}
inline int wait_status(pid_t pid) {
  int status = 0;
  ::waitpid(pid, &status, 0);
  return status;
}
inline int exit_code(pid_t pid) {
  const int status = wait_status(pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace hvd::transport::testing
