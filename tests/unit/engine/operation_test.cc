// SPDX-License-Identifier: Apache-2.0
// The life of an operation seen from several threads: it ends once, wakes everyone, and its
// callback comes exactly once.
#include "engine/operation.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "unit/time_scale.h"

namespace hvd::engine {
namespace {

using namespace std::chrono_literals;

void nothing(void*, Operation*, int32_t) {}

TEST(Operation, OwnOutput) {
  Operation operation;
  operation.set_name("results");
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{100'000}, size_t{32} << 20, (size_t{33} << 20) + 3}) {
    OpTensor tensor;
    ASSERT_TRUE(operation.own_output(tensor, bytes).ok()) << bytes;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.out) % 64, 0u) << bytes;
    std::memset(tensor.out, 1, bytes);
  }
  EXPECT_EQ(operation.owned.size(), 5u);
  OpTensor tensor;
  const Status status = operation.own_output(tensor, SIZE_MAX / 2);
  EXPECT_EQ(status.code(), Code::kOutOfMemory);
  EXPECT_NE(
      status.message().find("\"results\": no memory for a result of 9223372036854775807 bytes"),
      std::string::npos)
      << status.message();
  EXPECT_EQ(tensor.out, nullptr);
  EXPECT_EQ(operation.owned.size(), 5u);
}

TEST(Operation, CallbackBeforeTheEnd) {
  Operation operation;
  int marker = 0;
  EXPECT_EQ(operation.set_callback(nothing, &marker), Operation::Registered::kNow);
  EXPECT_EQ(operation.set_callback(nothing, nullptr), Operation::Registered::kRefused);
  operation.complete({});
  void* data = nullptr;
  EXPECT_EQ(operation.take_callback(&data), &nothing);
  EXPECT_EQ(data, &marker);
  EXPECT_EQ(operation.set_callback(nothing, nullptr), Operation::Registered::kRefused);
}

TEST(Operation, CallbackAfterTheEnd) {
  Operation operation;
  operation.complete({});
  void* data = nullptr;
  EXPECT_EQ(operation.take_callback(&data), nullptr);
  EXPECT_EQ(operation.set_callback(nothing, nullptr), Operation::Registered::kAfterEnd);
  EXPECT_EQ(operation.set_callback(nothing, nullptr), Operation::Registered::kRefused);
}

TEST(Operation, ASecondCallbackIsRefusedAlsoAtTheEnd) {
  for (int round = 0; round < 3000; ++round) {
    Operation operation;
    int marker = 0;
    ASSERT_EQ(operation.set_callback(nothing, &marker), Operation::Registered::kNow);
    std::atomic<int> ready{0};
    const auto together = [&] {
      ++ready;
      while (ready < 2) std::this_thread::yield();
    };
    Operation::Callback found = nullptr;
    void* data = nullptr;
    std::thread driver([&] {
      together();
      operation.complete({});
      found = operation.take_callback(&data);
    });
    together();
    const auto second = operation.set_callback(nothing, nullptr);
    driver.join();
    ASSERT_EQ(second, Operation::Registered::kRefused) << round;
    ASSERT_EQ(found, &nothing) << round;
    ASSERT_EQ(data, &marker) << round;
  }
}

TEST(Operation, CallbackRacesWithTheEnd) {
  int taken = 0;
  for (int round = 0; round < 3000; ++round) {
    Operation operation;
    std::atomic<int> ready{0};
    Operation::Callback found = nullptr;
    void* data = nullptr;
    const auto together = [&] {
      ++ready;
      while (ready < 2) std::this_thread::yield();
    };
    std::thread driver([&] {
      together();
      operation.complete({});
      found = operation.take_callback(&data);
    });
    together();
    const auto registered = operation.set_callback(nothing, &ready);
    driver.join();
    ASSERT_NE(registered, Operation::Registered::kRefused);
    // Either the driver has it, or this thread must arrange the call: never both, never none.
    ASSERT_EQ(found != nullptr, registered == Operation::Registered::kNow) << round;
    if (found != nullptr) {
      EXPECT_EQ(data, &ready);
      ++taken;
    }
    ASSERT_EQ(operation.set_callback(nothing, nullptr), Operation::Registered::kRefused);
  }
  std::printf("%d of 3000 callbacks were there before the end\n", taken);
}

TEST(Operation, OnlyOneOfManyCallbacksIsTaken) {
  for (int round = 0; round < 300; ++round) {
    Operation operation;
    std::atomic<int> accepted{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        if (operation.set_callback(nothing, nullptr) != Operation::Registered::kRefused) ++accepted;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(accepted, 1);
  }
}

TEST(Operation, EndWakesAllSleepers) {
  for (int round = 0; round < 50; ++round) {
    Operation operation;
    std::vector<std::thread> sleepers;
    for (int i = 0; i < 4; ++i) {
      sleepers.emplace_back([&] {
        const Time start = now();
        while (!operation.done()) operation.sleep_until(start + 10s);
        EXPECT_LT(now() - start, hvd::testing::scaled(5s))
            << "woken by its deadline, not by the end";
        EXPECT_EQ(operation.result().code(), Code::kMismatch);
      });
    }
    if (round % 2 == 0) std::this_thread::sleep_for(1ms);
    operation.complete(Status(Code::kMismatch, "differs"));
    for (std::thread& sleeper : sleepers) sleeper.join();
  }
}

TEST(Operation, SleepEndsAtTheDeadline) {
  Operation operation;
  const Time start = now();
  while (now() < start + 20ms) operation.sleep_until(start + 20ms);
  EXPECT_FALSE(operation.done());
  EXPECT_LT(now() - start, hvd::testing::scaled(5s));
}

TEST(Operation, ResetLeavesNothingOfTheLastUse) {
  Operation operation;
  operation.set_name("x");
  operation.prescale = 2;
  operation.set_callback(nothing, nullptr);
  operation.complete(Status(Code::kTimeout, "late"));
  operation.reset();
  EXPECT_FALSE(operation.done());
  EXPECT_TRUE(operation.result().ok());
  EXPECT_EQ(operation.key, "");
  EXPECT_EQ(operation.prescale, 1.0);
  EXPECT_EQ(operation.set_callback(nothing, nullptr), Operation::Registered::kNow);
}

}  // namespace
}  // namespace hvd::engine
