// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of this process, over hvd.hpp.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>
#include <hvd/hvd.hpp>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace hvd::testing {

inline InitOptions place(int rank, int size, const std::string& url) {
  InitOptions options;
  options.rank = rank;
  options.size = size;
  options.rendezvous = url;
  options.options = {{"hostname", "here"}};
  return options;
}

inline std::string fresh_place() {
  static std::atomic<int> count{0};
  return "mem://cpp-" + std::to_string(::getpid()) + "-" + std::to_string(++count);
}

// Runs `body` on every rank of a new job; all leave together.
inline void run_contexts(int size, const std::function<void(Context&)>& body) {
  const std::string url = fresh_place();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      Context context(place(rank, size, url));
      body(context);
      context.barrier({.name = "end"}).wait();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace hvd::testing
