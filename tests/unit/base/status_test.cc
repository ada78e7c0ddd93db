// SPDX-License-Identifier: Apache-2.0
#include "base/status.h"

#include <errno.h>
#include <gtest/gtest.h>

#include "base/clock.h"

namespace hvd {
namespace {

TEST(Status, KeepsWhatItWasGiven) {
  EXPECT_TRUE(Status().ok());
  const Status status = Status(Code::kPeerLost, "rank 3 died").with_rank(3).with_errno(EPIPE);
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.code(), Code::kPeerLost);
  EXPECT_EQ(status.message(), "rank 3 died");
  EXPECT_EQ(status.rank(), 3);
  EXPECT_EQ(status.sys_errno(), EPIPE);
}

TEST(Status, SystemErrorsNameTheirNumber) {
  const Status status = io_error("connect", ECONNREFUSED);
  EXPECT_EQ(status.code(), Code::kIo);
  EXPECT_EQ(status.message(), "connect: Connection refused (111)");
  EXPECT_EQ(status.sys_errno(), ECONNREFUSED);
}

TEST(Status, TryReturnsTheFirstError) {
  int steps = 0;
  const auto run = [&]() -> Status {
    HVD_TRY(Status());
    ++steps;
    HVD_TRY(Status(Code::kIo, "broken"));
    ++steps;
    return {};
  };
  EXPECT_EQ(run().message(), "broken");
  EXPECT_EQ(steps, 1);
}

TEST(Result, HoldsAValueOrAStatus) {
  Result<std::string> value(std::string("text"));
  EXPECT_TRUE(value.ok());
  EXPECT_TRUE(value.status().ok());
  EXPECT_EQ(std::move(value).value(), "text");
  const Result<std::string> error(Status(Code::kNotFound, "none"));
  EXPECT_FALSE(error.ok());
  EXPECT_EQ(error.status().code(), Code::kNotFound);
}

TEST(Clock, DeadlinesSaturate) {
  const Time start = now();
  EXPECT_EQ(deadline_after(start, Duration(5)), start + Duration(5));
  EXPECT_EQ(deadline_after(start, Duration(-1)), kNever);
  EXPECT_EQ(deadline_after(start, kForever), kNever);
  EXPECT_EQ(deadline_after(kNever, Duration(5)), kNever);
}

TEST(Clock, SecondsAreShortText) {
  EXPECT_EQ(seconds_text(std::chrono::milliseconds(500)), "0.5");
  EXPECT_EQ(seconds_text(std::chrono::microseconds(1'000'900)), "1");
  EXPECT_EQ(seconds_text(std::chrono::seconds(30)), "30");
  EXPECT_EQ(seconds_text(std::chrono::milliseconds(1'200'400)), "1200");
}

}  // namespace
}  // namespace hvd
